"""Decides how a map is fused: on what its body relies, and what an If must ask for first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.anywhere import runs_anywhere
from passes.batching.walk import Walk
from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.cost import cost_of_loop
from passes.fusing.fission import least_in_loops
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import Check, FusionFacts, Relied
from passes.fusing.guard_choice import (
    Choice,
    choose_by_cost,
    choose_guards,
    few_without_guard,
    for_count,
)
from passes.fusing.guarded_walks import Behind, unproven_sequences, walk_behind_guards
from passes.fusing.harmless import make_harmless
from passes.fusing.stack import is_promised, is_proven_equal, static_count
from passes.fusing.walk_site import walk_site
from passes.graphs import walk_nodes
from passes.loops.plan import LoopPlan, plan_loop
from passes.sequence_map import CONTRADICTED, DISPUTED, is_contradicted, is_disputed
from passes.site import IndexSource, MapSite, SequenceSource, TensorSource
from passes.sources import lengths_are_equal
from passes.typing import Typings

__all__ = [
    "FusionPlan",
    "add_even",
    "plan_as_long",
    "plan_decision",
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
        needs_samples: Whether the fused bodies must not run without samples.
        loop: The last branch, where there are guards.
        decision: The same for the reader.
        even: A fused body that is faster, where its site says at run time that it may run.
        rest: What the last branch is instead of a loop alone, where part of it is batched.
        few: Up to how many samples a loop runs instead of all this; 0 if any number pays.
        most_bytes: How large an element may be for a guard to pay; None for any size.
        relied: What the guards check of the elements of sequences.
    """

    site: MapSite
    fused: dict[Check | None, FusedBody]
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision
    even: FusedBody | None = None
    rest: FusedBody | None = None
    few: int = 0
    most_bytes: int | None = None
    relied: Relied = dataclasses.field(default_factory=dict)

    def discard(self) -> None:
        """Take back every use that it makes of the model's values."""
        for body in filter(None, (*self.fused.values(), self.even, self.rest)):
            body.discard()


def plan_fusion(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not."""
    loop = plan_loop(site, facts.typings, lacks=facts.lacks)
    untrusted = _untrusted(site, facts.typings)
    if untrusted is not None:
        return dataclasses.replace(loop.decision, reasons=[untrusted, *loop.decision.reasons])
    unproven = unproven_sequences(site, facts)
    plain = least_in_loops(site, facts, walk_site(site, facts, None))
    behind = walk_behind_guards(site, facts) if unproven else Behind()
    if facts.auto:
        choice = choose_by_cost(site, facts, loop, plain, behind)
    else:
        choice = choose_guards(site, facts, plain, behind)
    fused = choice.forms
    guarded = unproven if fused and None not in fused else []
    rest = choice.rest
    is_loop = not fused or (None in fused and _stays_loop(plain, facts))
    for body in (plain, *behind.found.values()):
        if is_loop or (body not in fused.values() and body is not rest):
            body.discard()
    if is_loop:
        # What the loop yields may differ in shape for the same causes.
        of_loop = loop.decision.reasons
        others = [r for r in of_loop if not plain.walk.reasons or r.code not in _OF_SHAPES]
        reasons = [*plain.walk.reasons, *choice.reasons, *others]
        return dataclasses.replace(loop.decision, reasons=reasons)
    decision = plan_decision(site, fused, guarded, loop, facts, rest)
    decision.reasons.extend(choice.reasons)
    needs_samples = bool(guarded) or _reads_sequence(plain) or _may_fail_empty(plain, facts)
    if needs_samples and _has_no_samples(site, facts):
        for body in {*fused.values(), plain}:
            body.discard()
        return dataclasses.replace(loop.decision, reasons=[_NO_SAMPLES, *loop.decision.reasons])
    plan = _plan(site, choice, guarded, loop, decision)
    plan.needs_samples |= needs_samples
    return plan


def _plan(
    site: MapSite,
    choice: Choice,
    guarded: list[ir.Value],
    loop: LoopPlan,
    decision: Decision,
) -> FusionPlan:
    if choice.few:
        decision.notes.append(f"up to {choice.few} samples run in one loop, which is faster")
    return FusionPlan(
        site,
        choice.forms,
        guarded,
        bool(guarded),
        loop,
        decision,
        rest=choice.rest,
        few=choice.few,
        most_bytes=choice.most_bytes,
        relied=choice.relied,
    )


def _proven_loop(site: MapSite, facts: FusionFacts) -> LoopPlan:
    """Plan a loop that relies on no declared type: an exporter's is its first example's."""
    proven = Typings(facts.typings.proven, facts.typings.proven)
    return plan_loop(site, proven, lacks=facts.lacks)


def _untrusted(site: MapSite, typings: Typings) -> Reason | None:
    """Return why no form but a loop is right whatever the elements are, None if one may be."""
    for inner, source in site.elements:
        if not isinstance(source, SequenceSource):
            continue
        if is_disputed(source.sequence, typings.declared):
            return Reason(Code.UNKNOWN_RANK, detail=DISPUTED)
        if is_contradicted(inner, source.sequence, typings.declared):
            return Reason(Code.UNKNOWN_SHAPE, detail=CONTRADICTED)
    return None


_OF_SHAPES = (Code.RAGGED, Code.UNKNOWN_RANK)


def _stays_loop(plain: FusedBody, facts: FusionFacts) -> bool:
    """Whether a body without a guard is better left to a loop, or to be unrolled."""
    return any(plain.walk.loops) and (not plain.walk.fused or "Loop" in facts.lacks)


_NO_SAMPLES = Reason(Code.COST, detail="there are no samples")


def _has_no_samples(site: MapSite, facts: FusionFacts) -> bool:
    """Whether a source is known to be empty, so that a branch for samples would never run."""
    return any(static_count(source, facts.typings) == 0 for _, source in site.elements)


_COULD_ASK = (
    "an If could ask at run time whether all elements have one shape, but would make this slower: "
    "--strategy fuse writes it, --uniform spares it"
)


def plan_whole(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide whether a map that was a Loop or Scan is fused: as a whole, or not at all."""
    plain = walk_site(site, facts, None)
    kept = Decision(site.path, site.node.op_type, Verdict.KEPT, "as it is")
    choice = Choice({None: plain})
    loop, guarded = LoopPlan({}, kept), unproven_sequences(site, facts)
    if plain.needs_loop(facts.typings):
        ragged = Reason(Code.RAGGED, detail="what it yields is not proven to have one shape")
        kept.reasons = plain.walk.reasons or [ragged]
        asks = bool(guarded) and _is_typed(site, facts)
        behind = walk_behind_guards(site, facts) if asks else Behind()
        if asks:
            # What an exporter declares of elements is its first example's.
            loop = _proven_loop(site, facts)
        whole = {c: body for c, body in behind.found.items() if not body.needs_loop(facts.typings)}
        choice = _choose_whole(site, facts, loop, plain, Behind(whole, behind.relied))
        if choice.reasons and choose_guards(site, facts, plain, Behind(whole)).is_guarded:
            kept.notes.append(_COULD_ASK)
        for body in (plain, *behind.found.values()):
            if body not in choice.forms.values():
                body.discard()
        if not choice.forms:
            kept.reasons.extend(choice.reasons)
            return kept
    fused = choice.forms
    decision = plan_decision(site, fused, [] if None in fused else guarded, loop, facts)
    decision.assumptions.extend(site.assumptions)
    decision.notes.insert(0, f"read as a map: {site.dialect}")
    if None not in fused:
        return _plan(site, choice, guarded, loop, decision)
    needs_samples = _reads_sequence(plain) or _may_fail_empty(plain, facts)
    if needs_samples and _has_no_samples(site, facts):
        plain.discard()
        return dataclasses.replace(kept, reasons=[_NO_SAMPLES])
    if facts.auto and _is_typed(site, facts) and not facts.lacks:
        loop = _proven_loop(site, facts)
        few = few_without_guard(plain, facts, cost_of_loop(site, loop.outputs))
        choice = for_count(site, facts, Choice(fused, few))
    plan = _plan(site, choice if choice.forms else Choice(fused), [], loop, decision)
    plan.needs_samples |= needs_samples
    return plan


def _choose_whole(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, whole: Behind
) -> Choice:
    """Choose among the guards behind which nothing stays in a loop."""
    if not whole.found:
        return Choice({})
    if facts.auto:
        choice = choose_by_cost(site, facts, loop, plain, whole)
    else:
        choice = choose_guards(site, facts, plain, whole)
    return (
        dataclasses.replace(choice, rest=None)
        if choice.is_guarded
        else Choice({}, reasons=choice.reasons)
    )


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
    loop = _proven_loop(site, facts)
    fused: dict[Check | None, FusedBody] = {Check.SIZES: body}
    asked = [tensor for _, tensor in as_long.as_long]
    decision = plan_decision(site, fused, asked, loop, facts)
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
    failing = [node for node in fused.walk.hoisted if not runs_anywhere(node, typing, facts.opset)]
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


def plan_decision(
    site: MapSite,
    fused: Mapping[Check | None, FusedBody],
    guarded: Sequence[ir.Value],
    loop: LoopPlan,
    facts: FusionFacts,
    rest: FusedBody | None = None,
) -> Decision:
    """Say what a map becomes, and on what that relies."""
    walk = next(iter(fused.values())).walk
    kept = any(walk.loops)
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
