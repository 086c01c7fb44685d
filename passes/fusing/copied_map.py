"""A map of a known few samples as copies of its body, where no batched form is always the fastest.

A form that pays for few rows only, or pads samples, asks for that and has a Loop beside it. Copies
of the body, one for each sample, ask nothing, need no Loop, and are as fast as one at least. What
the Loop carried beside the map runs behind them, once for all samples.
"""

from __future__ import annotations

from passes.decisions import Decision, Verdict
from passes.fusing.form_choice import FormChoice
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.graph.graphs import walk_nodes
from passes.loops.plan import LoopPlan
from passes.site import MapSite

__all__ = ["copied_map", "nodes_of_copy"]

_MOST_COPIED, _MOST_NODES = 8, 300
"""So many samples may have a copy of the body each, and so many nodes the copies in all."""


def copied_map(
    site: MapSite, facts: FusionFacts, loop: LoopPlan, choice: FormChoice
) -> FusionPlan | None:
    """Plan a map as copies of its body; None where that is not better than what was chosen.

    Args:
        site: The map.
        facts: What holds for all maps.
        loop: The map as a loop.
        choice: Its form, which asks for what the samples hold.
    """
    options = facts.options
    if not options.auto or options.lacks or options.for_device or site.sequences:
        return None
    if not facts.runs_once(site.graph):
        return None
    count = site.elements[0][1].number(facts.typings.proven)
    nodes = nodes_of_copy(site)
    if not count or count > _MOST_COPIED or count * nodes > _MOST_NODES:
        return None
    copied = FormChoice({}, few=count, is_copied=True, reasons=choice.reasons)
    notes = [*loop.decision.notes, *(line for one in site.originals for line in one.patterns)]
    form = f"{count} copies, {count * nodes} nodes"
    decision = Decision(site.path, site.op_type, Verdict.UNROLLED, form, notes=notes)
    return FusionPlan(site, copied, [], False, loop, decision)


def nodes_of_copy(site: MapSite) -> int:
    """Return how many nodes a copy of the body of a map is."""
    return sum(node.op_type != "Constant" for node in walk_nodes(site.body))
