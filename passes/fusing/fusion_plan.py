"""Decides how a map is fused: on what its body relies, and what an If must ask for first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.form_choice import FormChoice, with_question
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.fusing.guard_choice import choose_by_cost, choose_guards
from passes.fusing.guarded_walks import Behind, walk_behind_guards
from passes.fusing.plain_body import (
    has_no_samples,
    least_in_loops,
    may_fail_empty,
    reads_sequence,
    stays_loop,
    why_untrusted,
)
from passes.fusing.plan_decision import plan_decision
from passes.fusing.walk_site import walk_site
from passes.graph.graphs import walk_nodes
from passes.loops.copied_loop import copied_loop
from passes.loops.forms import Form
from passes.loops.plan import LoopPlan, plan_loop
from passes.site import GuardCheck, MapSite
from passes.typing import Typings

__all__ = [
    "FusionPlan",
    "few_note",
    "plan_fusion",
]


@dataclasses.dataclass
class FusionPlan:
    """What a map becomes: recorded, not yet put into its graph.

    Attributes:
        site: The map.
        fused: Its body with a batch axis; one for each guard, in the order of asking, and last
            the one that needs none. Empty where it becomes a loop of ours.
        guarded: The sequences that the guards ask.
        needs_samples: Whether the fused bodies must not run without samples.
        loop: What it is where it is not fused: the last branch, where all forms have guards.
        decision: The same for the reader.
        rest: What the last branch is instead of a loop alone, where part of it is batched.
        few: Up to how many samples a loop runs instead of all this; 0 if any number pays.
        is_copied: Whether it is a copy of the body for each sample instead of a loop.
        few_of: Up to how many samples a further form is left out, where that is more.
        most_bytes: How large an element may be for a guard to pay; None for any size.
        relied: What the guards check of the elements of sequences.
        asks_sizes: Whether it asks what follows from sizes alone before it computes lengths.
    """

    site: MapSite
    fused: dict[GuardCheck | None, FusedBody]
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision
    rest: FusedBody | None = None
    few: int = 0
    is_copied: bool = False
    few_of: Mapping[GuardCheck, int] = dataclasses.field(default_factory=dict)
    most_bytes: int | None = None
    relied: Relied = dataclasses.field(default_factory=dict)
    asks_sizes: bool = True

    @property
    def is_guarded(self) -> bool:
        """Whether all its forms stand behind guards."""
        return bool(self.fused) and None not in self.fused


def plan_fusion(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not.

    A map that was raised is fused as a whole, or not at all: its original is better than a loop
    of ours.
    """
    loop = _without_fusion(site, facts)
    untrusted = why_untrusted(site, facts.typings)
    if untrusted is not None:
        return dataclasses.replace(loop.decision, reasons=[untrusted, *loop.decision.reasons])
    plain = walk_site(site, facts, None)
    if not site.originals:
        plain = least_in_loops(site, facts, plain)
    if plain.walk.meets and "If" not in facts.options.lacks:
        asked = _asks_sizes(site, facts, loop)
        if asked is not None:
            return asked
    unproven = facts.unproven_sequences(site)
    behind = _behind_guards(site, facts, plain) if unproven else Behind()
    choice = _choose(site, facts, loop, plain, behind)
    fused = choice.forms
    if any(body.walk.limits for body in fused.values()) and not _has_loop(site, facts, loop):
        fused = {}
    is_loop = not fused or (None in fused and stays_loop(plain, facts))
    if is_loop:
        kept = _kept_as_loop(loop, plain, choice)
        could_ask = choice.reasons and choose_guards(site, facts, plain, behind).is_guarded
        if site.originals and could_ask:
            kept.notes.append(_COULD_ASK)
        return (
            _where_sizes_agree(site, facts, loop, kept)
            or _as_loop(site, facts, loop, kept)
            or kept
        )
    guarded = unproven if choice.is_guarded else []
    reading = None if guarded else _where_slices_agree(site, facts, plain)
    if reading is not None:
        fused = {GuardCheck.SLICES: reading, **fused}
        choice = with_question(reading.site, facts, loop, plain, choice)
    decision = plan_decision(site, fused, guarded, loop, facts, choice.rest)
    decision.reasons.extend(choice.reasons)
    needs_samples = bool(guarded) or reads_sequence(plain) or may_fail_empty(plain, facts)
    if _is_open_behind(site, facts):
        choice = choice if choice.is_copied else dataclasses.replace(choice, few=0)
        if needs_samples:
            reasons = [_OPEN_RESULT, *loop.decision.reasons]
            return dataclasses.replace(loop.decision, reasons=reasons)
    if choice.few:
        decision.notes.append(few_note(choice.few, is_copied=choice.is_copied))
        decision.few = choice.few
    decision.notes.extend(
        f"where {check.value}, up to {few} samples run in one loop, which is faster"
        for check, few in choice.few_of.items()
    )
    plan = FusionPlan(
        site,
        fused,
        guarded,
        needs_samples,
        loop,
        decision,
        rest=choice.rest,
        few=choice.few,
        is_copied=choice.is_copied,
        few_of=choice.few_of,
        most_bytes=choice.most_bytes,
        relied=choice.relied,
    )
    if needs_samples and has_no_samples(site, facts):
        return dataclasses.replace(loop.decision, reasons=[_NO_SAMPLES, *loop.decision.reasons])
    return plan


def few_note(few: int, *, is_copied: bool = False) -> str:
    """Say how few samples run."""
    where = "by copies of the body" if is_copied else "in one loop"
    return f"up to {few} samples run {where}, which is faster"


def _without_fusion(site: MapSite, facts: FusionFacts) -> LoopPlan:
    """Plan what a map is where it is not fused: a loop, or its original.

    A loop in the place of an original relies on no declared type: an exporter's is its first
    example's.
    """
    if not site.originals:
        return plan_loop(site, facts.typings, lacks=facts.options.lacks)
    dialect = site.originals[-1].dialect
    notes = [f"read as a map: {dialect}"] if dialect else []
    kept = Decision(site.path, site.op_type, Verdict.KEPT, "as it is", notes=notes)
    if not _is_typed(site, facts):
        return LoopPlan({}, kept)
    proven = Typings(facts.typings.proven, facts.typings.proven)
    return dataclasses.replace(plan_loop(site, proven, lacks=facts.options.lacks), decision=kept)


def _has_loop(site: MapSite, facts: FusionFacts, loop: LoopPlan) -> bool:
    """Whether the map can be written as a loop beside its fused body."""
    return bool(loop.outputs) or copied_loop(site, facts.typings) is not None


def _behind_guards(site: MapSite, facts: FusionFacts, plain: FusedBody) -> Behind:
    """Walk over a body behind the guards that could help, and leave out what may not be taken."""
    if not site.originals:
        return walk_behind_guards(site, facts)
    if not plain.needs_loop(facts.typings) or not _is_typed(site, facts) or _is_carried(site):
        return Behind()
    behind = walk_behind_guards(site, facts)
    whole = {c: body for c, body in behind.found.items() if not body.needs_loop(facts.typings)}
    return Behind(whole, behind.relied)


def _choose(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, behind: Behind
) -> FormChoice:
    if facts.options.auto and loop.outputs:
        return choose_by_cost(site, facts, loop, plain, behind)
    return choose_guards(site, facts, plain, behind)


def _kept_as_loop(loop: LoopPlan, plain: FusedBody, choice: FormChoice) -> Decision:
    """Say why a map is not fused."""
    # What the loop yields may differ in shape for the same causes.
    of_loop = loop.decision.reasons
    others = [r for r in of_loop if not plain.walk.reasons or r.code not in _OF_SHAPES]
    is_kept = loop.decision.verdict is Verdict.KEPT
    causes = plain.walk.reasons or ([_OPEN_RESULT] if is_kept else [])
    return dataclasses.replace(loop.decision, reasons=[*causes, *choice.reasons, *others])


_OPEN_RESULT = Reason(Code.RAGGED, detail="what it yields is not proven to have one shape")


def _as_loop(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, kept: Decision
) -> FusionPlan | None:
    """Plan a loop that collects, in the place of one that copies all it has in each iteration."""
    if not all(one.grows for one in site.originals) or not site.originals or not loop.outputs:
        return None
    forms = {one.form for one in loop.outputs.values()}
    if facts.options.lacks and forms != {Form.SCAN_OUTPUT}:
        return None
    form = "Loop with " + " and ".join(sorted(one.value for one in forms))
    patterns = [line for one in site.originals for line in one.patterns]
    decision = dataclasses.replace(
        kept, verdict=Verdict.EXPANDED, form=form, notes=[*kept.notes, *patterns]
    )
    return FusionPlan(site, {}, [], False, dataclasses.replace(loop, decision=kept), decision)


def _where_sizes_agree(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, kept: Decision
) -> FusionPlan | None:
    """Plan a map that stays a loop for tensors that turn out to be equally long, if that helps."""
    if not any(r.code is Code.RAGGED or r.dependents for r in kept.reasons):
        return None
    return _asks_sizes(site, facts, loop)


def _asks_sizes(site: MapSite, facts: FusionFacts, loop: LoopPlan) -> FusionPlan | None:
    """Plan a map for tensors that turn out to be equally long, None if it reads none of these."""
    if _is_carried(site):
        return None
    body = _walk_reading(site, facts, GuardCheck.SIZES)
    if body is None:
        return None
    fused: dict[GuardCheck | None, FusedBody] = {GuardCheck.SIZES: body}
    return FusionPlan(site, fused, [], True, loop, plan_decision(site, fused, [], loop, facts))


def _is_carried(site: MapSite) -> bool:
    """Whether operators behind the map read all values of it at once.

    A loop in another branch would have to stack what may differ in shape, which the Loop as given
    need not: it carries one value at a time.
    """
    return any(one.patterns and not one.grows for one in site.originals)


def _is_open_behind(site: MapSite, facts: FusionFacts) -> bool:
    """Whether operators behind the map read values whose shape is not all known.

    Of no samples a loop collects such values with a size of 0, which is no longer that of what
    they are joined to.
    """
    if not any(one.needs_sizes for one in site.originals):
        return False
    behind = {node for one in site.originals for node in one.written}
    read = (r for r in site.results if any(n in behind for n in r.value.consumers()))
    bodies = (site.body.outputs[result.output] for result in read)
    return any(facts.typings.proven.static_dims(value) is None for value in bodies)


def _where_slices_agree(site: MapSite, facts: FusionFacts, plain: FusedBody) -> FusedBody | None:
    """Return a faster body for slices that turn out to be equally long, if there is one."""
    if "If" in facts.options.lacks or not _reduces_rows(plain):
        return None
    return _walk_reading(site, facts, GuardCheck.SLICES)


def _walk_reading(site: MapSite, facts: FusionFacts, check: GuardCheck) -> FusedBody | None:
    """Walk over another reading of a map; None where it has none, or would stay in a loop."""
    if len(site.originals) != 1 or not _is_typed(site, facts):
        return None
    reading = next((a for a in site.originals[0].alternatives if a.check is check), None)
    if reading is None:
        return None
    body = walk_site(reading.site(site), facts, None)
    return None if body.needs_loop(facts.typings) else body


_OF_SHAPES = (Code.RAGGED, Code.UNKNOWN_RANK)


_NO_SAMPLES = Reason(Code.COST, detail="there are no samples")


_COULD_ASK = (
    "an If could ask at run time whether all elements have one shape, but would make this slower: "
    "--strategy fuse writes it, --uniform spares it"
)


def _reduces_rows(body: FusedBody) -> bool:
    """Whether a fused body sums, or reduces otherwise, over samples of different length."""
    nodes = (node for stage in body.walk.stages for node in walk_nodes(stage.nodes))
    return sum(node.op_type == "ScatterElements" for node in nodes) > 1


def _is_typed(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the element type of each result is known, so that an If may yield it."""
    typed = (site.body.outputs[o] for o in site.used_outputs())
    return all(facts.typings.declared.dtype(v) for v in typed)
