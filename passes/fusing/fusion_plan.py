"""Decides how a map is fused: on what its body relies, and what an If must ask for first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.failing import cannot_fail
from passes.batching.walk import Walk
from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.fission import least_in_loops
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import Check, FusionFacts
from passes.fusing.guard_choice import (
    choose_guards,
    unproven_sequences,
    walk_behind_guards,
)
from passes.fusing.harmless import make_harmless
from passes.fusing.stack import is_promised, is_proven_equal, static_count
from passes.fusing.walk_site import walk_site
from passes.graphs import walk_nodes
from passes.loops.plan import LoopPlan, plan_loop
from passes.sequence_map import DISPUTED, is_disputed
from passes.site import IndexSource, MapSite, SequenceSource, TensorSource
from passes.sources import lengths_are_equal
from passes.typing import Typings

__all__ = [
    "FusionPlan",
    "add_even",
    "plan_as_long",
    "plan_fusion",
    "plan_whole",
    "reduces_rows",
]


@dataclasses.dataclass
class FusionPlan:
    """What a map becomes: recorded, not yet put into its graph.

    Attributes:
        site: The map.
        fused: Its body with a batch axis; one for each guard, in the order of asking.
        guarded: The sequences that the guards ask.
        needs_samples: Whether the fused body must not run without samples.
        loop: The last branch, where there are guards.
        decision: The same for the reader.
        even: A fused body that is faster, where its site says at run time that it may run.
        rest: What the last branch is instead of a loop alone, where part of it is batched.
    """

    site: MapSite
    fused: dict[Check | None, FusedBody]
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision
    even: FusedBody | None = None
    rest: FusedBody | None = None


def plan_fusion(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not."""
    loop = plan_loop(site, facts.typings)
    if any(
        isinstance(source, SequenceSource) and is_disputed(source.sequence, facts.typings.declared)
        for _, source in site.elements
    ):
        reason = Reason(Code.UNKNOWN_RANK, detail=DISPUTED)
        return dataclasses.replace(loop.decision, reasons=[reason, *loop.decision.reasons])
    unproven = unproven_sequences(site, facts)
    plain = walk_site(site, facts, None)
    found = walk_behind_guards(site, facts) if unproven else {}
    fused, notes = choose_guards(site, facts, plain, found, auto=facts.auto)
    for body in found.values():
        if body not in fused.values():
            body.discard()
    plain = least_in_loops(site, facts, plain)
    if None in fused:
        fused[None] = plain
    guarded = unproven if None not in fused else []
    rest = plain if guarded and plain.walk.fused else None
    decision = _decision(site, fused, guarded, loop, facts, rest)
    decision.reasons.extend(notes)
    is_loop = None in fused and _stays_loop(plain, facts)
    if is_loop or (guarded and rest is None):
        plain.discard()
    if is_loop:
        return decision
    needs_samples = bool(guarded) or _reads_sequence(plain) or _may_fail_empty(plain, facts)
    if needs_samples and _has_no_samples(site, facts):
        for body in {*fused.values(), plain}:
            body.discard()
        return dataclasses.replace(loop.decision, reasons=[_NO_SAMPLES, *loop.decision.reasons])
    return FusionPlan(site, fused, guarded, needs_samples, loop, decision, rest=rest)


def _stays_loop(plain: FusedBody, facts: FusionFacts) -> bool:
    """Whether a body without a guard is better left to a loop, or to be unrolled."""
    return any(plain.walk.loops) and (not plain.walk.fused or "Loop" in facts.lacks)


_NO_SAMPLES = Reason(Code.COST, detail="there are no samples")


def _has_no_samples(site: MapSite, facts: FusionFacts) -> bool:
    """Whether a source is known to be empty, so that a branch for samples would never run."""
    return any(static_count(source, facts.typings) == 0 for _, source in site.elements)


_OF_SHAPES = (Code.RAGGED, Code.UNKNOWN_RANK)

_COULD_ASK = (
    "an If could ask at run time whether all elements have one shape, which pays for long lists"
)


def plan_whole(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide whether a map that was a Loop or Scan is fused: as a whole, or not at all.

    For ``auto`` there is no guard: the Loop is there already, and lists are short more often
    than not, when a guard costs more than it saves. A note says where there could be one.
    """
    plain = walk_site(site, facts, None)
    kept = Decision(site.path, site.node.op_type, Verdict.KEPT, "as it is")
    fused: dict[Check | None, FusedBody] = {None: plain}
    loop, guarded = LoopPlan({}, kept), unproven_sequences(site, facts)
    if plain.needs_loop(facts.typings):
        ragged = Reason(Code.RAGGED, detail="what it yields is not proven to have one shape")
        kept.reasons = plain.walk.reasons or [ragged]
        asks = bool(guarded) and _is_typed(site, facts)
        found = walk_behind_guards(site, facts) if asks else {}
        fused, _ = choose_guards(site, facts, plain, found, auto=False)
        fused = {check: b for check, b in fused.items() if not b.needs_loop(facts.typings)}
        if facts.auto and fused:
            kept.notes.append(_COULD_ASK)
            fused = {}
        for body in (plain, *found.values()):
            if body not in fused.values():
                body.discard()
        if not fused:
            return kept
        # What an exporter declares of elements is its first example's.
        loop = plan_loop(site, Typings(facts.typings.proven, facts.typings.proven))
    decision = _decision(site, fused, [] if None in fused else guarded, loop, facts)
    decision.assumptions.extend(site.assumptions)
    decision.notes.insert(0, f"read as a map: {site.dialect}")
    if None not in fused:
        return FusionPlan(site, fused, guarded, True, loop, decision)
    needs_samples = _reads_sequence(plain) or _may_fail_empty(plain, facts)
    if needs_samples and _has_no_samples(site, facts):
        plain.discard()
        return dataclasses.replace(kept, reasons=[_NO_SAMPLES])
    return FusionPlan(site, fused, [], needs_samples, loop, decision)


def plan_as_long(site: MapSite, as_long: MapSite, facts: FusionFacts) -> FusionPlan | None:
    """Decide whether a map is fused as a whole where tensors are equally long.

    Args:
        site: The map.
        as_long: The same, read as if tensors that are cut alike were equally long.
        facts: What holds for all maps.

    Returns:
        The plan of an If on the lengths; None where something would stay in a loop.
    """
    body = walk_site(as_long, facts, None)
    if body.needs_loop(facts.typings) or not _is_typed(site, facts):
        body.discard()
        return None
    loop = plan_loop(site, Typings(facts.typings.proven, facts.typings.proven))
    fused: dict[Check | None, FusedBody] = {Check.SIZES: body}
    asked = [tensor for _, tensor in as_long.as_long]
    decision = _decision(site, fused, asked, loop, facts)
    decision.assumptions.extend(site.assumptions)
    decision.notes.insert(0, f"read as a map: {site.dialect}")
    return FusionPlan(site, fused, [], True, loop, decision)


def add_even(plan: FusionPlan, site: MapSite, facts: FusionFacts) -> bool:
    """Add a faster body to a plan, for slices that turn out to be equally long.

    Args:
        plan: A map that is fused as a whole; its slices are packed.
        site: The same map, read as if its slices had one length.
        facts: What holds for all maps.

    Returns:
        Whether it was added.
    """
    body = walk_site(site, facts, None)
    if body.needs_loop(facts.typings) or not _is_typed(plan.site, facts):
        body.discard()
        return False
    plan.even = body
    plan.decision.form = "stacked if all slices are equally long, else packed"
    return True


def reduces_rows(plan: FusionPlan) -> bool:
    """Whether a fused body sums, or reduces otherwise, over samples of different length."""
    stages = plan.fused[None].walk.stages
    nodes = (node for stage in stages for node in walk_nodes(stage.nodes))
    return sum(node.op_type == "ScatterElements" for node in nodes) > 1


def _is_typed(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the element type of each result is known, so that an If may yield it."""
    typed = (site.body.outputs[o] for o in site.used_outputs())
    return all(facts.typings.declared.dtype(v) for v in typed)


def _reads_sequence(fused: FusedBody) -> bool:
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def _may_fail_empty(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether a node that could fail now runs even if there are no samples."""
    typing = facts.typings.proven
    failing = [node for node in fused.walk.hoisted if not cannot_fail(node, typing)]
    is_open = fused.reads_open_results(facts.typings)
    if (not failing and not is_open) or _has_a_sample(fused, facts):
        return False
    may_mend = "If" in facts.lacks and not is_open
    return not (may_mend and make_harmless(fused, failing, typing))


def _has_a_sample(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether the source that gives the number of samples has an element by proof."""
    source = fused.site.elements[0][1]
    if isinstance(source, IndexSource):
        return bool(source.number)
    if isinstance(source, TensorSource) and source.split is None:
        dims = facts.typings.proven.dims(source.tensor)
        size = None if dims is None else dims[source.axis % len(dims)]
        return isinstance(size, int) and size > 0
    return False


def _decision(
    site: MapSite,
    fused: Mapping[Check | None, FusedBody],
    guarded: Sequence[ir.Value],
    loop: LoopPlan,
    facts: FusionFacts,
    rest: FusedBody | None = None,
) -> Decision:
    walk = next(iter(fused.values())).walk
    kept = any(walk.loops)
    if None in fused and _stays_loop(fused[None], facts):
        decision = loop.decision
        # What the loop yields may differ in shape for the same causes.
        others = [r for r in decision.reasons if not walk.reasons or r.code not in _OF_SHAPES]
        return dataclasses.replace(decision, reasons=[*walk.reasons, *others])
    verdict = Verdict.GUARDED if guarded else Verdict.FISSIONED if kept else Verdict.FUSED
    form = "If on " + ", else on ".join(c.value for c in fused if c) if guarded else ""
    if kept:
        form = f"{form + ', ' if form else ''}{_kept_form(walk)}"
    if rest is not None:
        form = f"{form}, else {_kept_form(rest.walk)}"
    notes = [
        f"{facts.paths.get(node, node.op_type)} ({node.op_type}) may flip at a tie: what feeds "
        "it rounds differently when batched; --exact keeps it per-sample"
        for node in walk.flips
    ]
    assumptions = [
        f"{site.path}: all elements of '{source.sequence.name}' have one shape (promised)"
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, facts.typings)
        and source.sequence not in guarded
        and is_promised(source.sequence, facts.promises, facts.typings)
    ]
    unguarded = fused.get(None, rest)
    if unguarded is not None:
        assumptions += [
            f"{site.path}: the declared element types hold for '{value.name}'; a sample that "
            "breaks them is an error when the model runs"
            for value in unguarded.taken_as_declared(facts.typings)
        ]
    reasons = [*walk.reasons]
    if not site.was_loop and not lengths_are_equal(site, facts.typings.proven):
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    count = sum(map(len, walk.loops))
    return Decision(
        site.path, site.node.op_type, verdict, form, reasons, assumptions, notes, count
    )


def _kept_form(walk: Walk) -> str:
    """Say what of a body stays in loops."""
    loops = sum(bool(nodes) for nodes in walk.loops)
    count = sum(len(nodes) for nodes in walk.loops)
    return f"{count} nodes in {loops} loop(s)"
