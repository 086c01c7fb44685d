"""Plans a map behind the one guard that relies on nothing: all elements have one shape."""

from __future__ import annotations

import dataclasses

from passes.decisions import Code, Decision, Reason
from passes.fusing.form_choice import FormChoice
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guarded_walks import declared_elements
from passes.fusing.plan_decision import plan_decision
from passes.fusing.walk_site import walk_site
from passes.loops.plan import plan_loop
from passes.maps.sequence_source import is_disputed
from passes.site import GuardCheck, MapSite

__all__ = ["plan_guarded"]


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
    declined = dataclasses.replace(loop.decision, reasons=[REPAIRED, *loop.decision.reasons])
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
    decision.reasons.insert(0, REPAIRED)
    return FusionPlan(site, choice, guarded, True, loop, decision)


REPAIRED = Reason(Code.REPAIRED)
"""Why a map does not take the form that would have been chosen."""
