"""Decides how a map is fused: on what its body relies, and what an If must ask for first."""

from __future__ import annotations

import dataclasses

from passes.batching.anywhere import runs_anywhere
from passes.decisions import Code, Decision, Reason, Verdict
from passes.fusing.alternatives import is_typed, where_slices_agree
from passes.fusing.copied_map import copied_map
from passes.fusing.cost import cost_of_loop
from passes.fusing.form_choice import (
    FormChoice,
    choose_without_guard,
    for_count,
    with_question,
)
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guard_choice import choose_guarded_by_cost, choose_guards
from passes.fusing.guarded_walks import Behind, declared_elements, walk_behind_guards
from passes.fusing.partly_fused import (
    OPEN_RESULT,
    ask_sizes,
    is_carried,
    least_in_loops,
    plan_unfused,
)
from passes.fusing.plan_decision import plan_decision, why_unguarded
from passes.fusing.rows_of_loops import joins_rows_of_loops, yields_rows_of_loops
from passes.fusing.speculatable import make_speculatable, read_of
from passes.fusing.walk_site import walk_site
from passes.loops.copied_loop import copied_loop
from passes.loops.plan import LoopPlan, plan_loop
from passes.maps.sequence_source import (
    CONTRADICTED,
    DISPUTED,
    is_contradicted,
    is_disputed,
)
from passes.site import GuardCheck, MapSite
from passes.typing import Typings

__all__ = ["choose_form", "plan_fusion", "plan_guarded"]

_DEAR_MEETING = Reason(
    Code.COST, detail="comparing the lengths of samples would cost more than batching saves"
)
_REPAIRED = Reason(Code.REPAIRED)
_NO_SAMPLES = Reason(Code.COST, detail="there are no samples")


def plan_fusion(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Decide how a map is fused; a `Decision` alone says why it is not.

    A map that was raised is fused as a whole, or not at all: its original is better than a loop
    of ours.
    """
    facts = facts.for_ends_of(site)
    loop = _without_fusion(site, facts)
    why_loop = _why_untrusted(site, facts.typings) or why_unguarded(site)
    if why_loop is not None:
        return _stays(loop, why_loop)
    plain = walk_site(site, facts, None)
    if not site.originals and any(plain.walk.loops):
        plain = least_in_loops(site, facts, plain)
    if plain.walk.meets and "If" not in facts.options.lacks:
        asked = ask_sizes(site, facts, loop)
        if asked is not None:
            return asked
    unproven = facts.unproven_sequences(site)
    behind = _behind_guards(site, facts, plain) if unproven else Behind()
    choice = choose_form(site, facts, loop, plain, behind)
    if not choice.forms or _is_better_as_loop(site, facts, loop, plain, choice):
        return plan_unfused(site, facts, loop, plain, behind, choice)
    if any(body.walk.limits for body in choice.bodies):
        copied = copied_map(site, facts, loop, choice)
        if copied is not None:
            return copied
    guarded = unproven if choice.is_guarded else []
    if site.originals and not guarded:
        choice = _with_slices(site, facts, loop, plain, choice)
    failing = None if guarded or _reads_sequence(plain) else _failing_empty(plain, facts)
    needs_samples = bool(guarded) or _reads_sequence(plain) or failing is not None
    if _is_open_behind(site, facts):
        choice = choice if choice.is_copied else dataclasses.replace(choice, few=0)
        if needs_samples or yields_rows_of_loops(plain, facts.typings.proven):
            return _stays(loop, OPEN_RESULT)
    if needs_samples and _has_no_samples(site, facts):
        return _stays(loop, _NO_SAMPLES)
    decision = plan_decision(site, choice, guarded, facts)
    decision.failing = failing or ""
    return FusionPlan(site, choice, guarded, needs_samples, loop, decision)


def plan_guarded(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
    """Plan an If: the fused body where all elements have one shape, else a loop.

    No promise, proof or declared number is relied on, and nothing is packed.

    Returns:
        The plan; a `Decision` alone where a source is no sequence, or nothing would be fused.
    """
    loop = plan_loop(site, facts.typings, lacks=facts.options.lacks)
    sequences = [sequence for _, sequence in site.sequences]
    typed = all(facts.typings.declared.dtype(site.body.outputs[o]) for o in site.used_outputs())
    disputed = any(is_disputed(sequence, facts.typings.declared) for sequence in sequences)
    declined = _stays(loop, _REPAIRED)
    if len(sequences) != len(site.elements) or disputed or not typed:
        return declined
    body = walk_site(site, facts, GuardCheck.SHAPES)
    if not body.walk.fused:
        return declined
    guarded = list(dict.fromkeys(sequences))
    declared = declared_elements(site, facts, guarded)
    relied = {sequence: dims for sequence, dims in declared.items() if dims is not None}
    choice = FormChoice({GuardCheck.SHAPES: body}, relied=relied)
    decision = plan_decision(site, choice, guarded, facts)
    decision.reasons.insert(0, _REPAIRED)
    return FusionPlan(site, choice, guarded, True, loop, decision)


def _stays(loop: LoopPlan, why: Reason) -> Decision:
    """Say that a map stays what it is without fusion, and why."""
    return dataclasses.replace(loop.decision, reasons=[why, *loop.decision.reasons])


def _is_better_as_loop(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, choice: FormChoice
) -> bool:
    """Whether a form asks for a loop that cannot be written, or is hardly more than a loop."""
    if None in choice.forms and _stays_loop(plain, facts):
        return True
    is_limited = any(body.walk.limits for body in choice.forms.values())
    return is_limited and not _has_loop(site, facts, loop)


def _with_slices(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, choice: FormChoice
) -> FormChoice:
    """Return the choice with a form in front for slices that turn out to be even, if any is."""
    reading = where_slices_agree(site, facts, plain)
    if reading is None:
        return choice
    asked = with_question(reading.site, facts, loop, plain, choice)
    return dataclasses.replace(asked, forms={GuardCheck.SLICES: reading, **choice.forms})


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
    if not is_typed(site, facts):
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
    if not plain.needs_loop(facts.typings) or not is_typed(site, facts) or is_carried(site):
        return Behind()
    behind = walk_behind_guards(site, facts)
    whole = {c: body for c, body in behind.found.items() if not body.needs_loop(facts.typings)}
    return Behind(whole, behind.relied)


def choose_form(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, plain: FusedBody, behind: Behind
) -> FormChoice:
    """Choose the form that costs the least, or, if asked, the form that fuses the most."""
    if not facts.options.auto or not loop.outputs:
        return choose_guards(site, facts, plain, behind)
    as_loop = cost_of_loop(site, loop.outputs, facts.typings.declared)
    choice = choose_without_guard(site, facts, as_loop, plain)
    if choice.reasons:
        return choice
    if behind.found:
        guarded = choose_guarded_by_cost(site, facts, as_loop, choice, plain, behind)
        if not guarded.forms:
            guarded = dataclasses.replace(choice, reasons=guarded.reasons)
        choice = guarded
    if plain.walk.meets and not choice.forms and not choice.reasons:
        choice = FormChoice({}, reasons=(_DEAR_MEETING,))
    return for_count(site, facts, choice)


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


def _why_untrusted(site: MapSite, typings: Typings) -> Reason | None:
    """Return why no form but a loop is right whatever the elements are, None if one may be."""
    for inner, sequence in site.sequences:
        if is_disputed(sequence, typings.declared):
            return Reason(Code.UNKNOWN_RANK, detail=DISPUTED)
        if is_contradicted(inner, sequence, typings.declared):
            return Reason(Code.UNKNOWN_SHAPE, detail=CONTRADICTED)
    return None


def _stays_loop(plain: FusedBody, facts: FusionFacts) -> bool:
    """Whether a body without a guard is better left to a loop, or to be unrolled."""
    return any(plain.walk.loops) and (not plain.walk.fused or "Loop" in facts.options.lacks)


def _has_no_samples(site: MapSite, facts: FusionFacts) -> bool:
    """Whether a source is known to be empty, so that a branch for samples would never run."""
    return any(source.number(facts.typings.proven) == 0 for _, source in site.elements)


def _reads_sequence(fused: FusedBody) -> bool:
    """Whether samples are joined to one tensor before they are batched."""
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def _failing_empty(fused: FusedBody, facts: FusionFacts) -> str | None:
    """Return a node that could fail and now runs even if there are no samples, None if none does.

    It is empty where no single node is to blame.
    """
    typing = facts.typings.proven
    failing = [node for node in fused.walk.hoisted if not runs_anywhere(node, typing, facts.opset)]
    failing = read_of(fused, failing) if failing else failing
    is_open = fused.reads_open_results(facts.typings)
    stay = facts.has_loops and "Loop" not in facts.options.lacks
    is_open |= stay and joins_rows_of_loops(fused, typing)
    if (not failing and not is_open) or _has_a_sample(fused, facts):
        return None
    lacks_if = "If" in facts.options.lacks
    may_mend = (lacks_if or facts.options.for_device) and not is_open
    if may_mend and make_speculatable(fused, failing, typing, copies=lacks_if):
        return None
    return f"{fused.walk.path_of(failing[0])} ({failing[0].op_type})" if failing else ""


def _has_a_sample(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether the source that gives the number of samples has an element by proof."""
    return bool(fused.site.elements[0][1].number(facts.typings.proven))
