"""Further readings of a Loop, each right where a question at run time says yes."""

from __future__ import annotations

from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.walk_site import walk_site
from passes.graph.graphs import walk_nodes
from passes.site import GuardCheck, MapSite

__all__ = ["is_typed", "walk_alternative", "where_slices_agree"]


def walk_alternative(site: MapSite, facts: FusionFacts, check: GuardCheck) -> FusedBody | None:
    """Walk over another reading of a map; None where it has none, or would stay in a loop."""
    if len(site.originals) != 1 or not is_typed(site, facts):
        return None
    reading = next((a for a in site.originals[0].alternatives if a.check is check), None)
    if reading is None:
        return None
    body = walk_site(reading.site(site), facts, None)
    return None if body.needs_loop(facts.typings) else body


def where_slices_agree(site: MapSite, facts: FusionFacts, plain: FusedBody) -> FusedBody | None:
    """Return a faster body for slices that turn out to be equally long, if there is one."""
    if "If" in facts.options.lacks or not _reduces_rows(plain):
        return None
    return walk_alternative(site, facts, GuardCheck.SLICES)


def _reduces_rows(body: FusedBody) -> bool:
    """Whether a fused body sums, or reduces otherwise, over samples of different length."""
    nodes = (node for stage in body.walk.stages for node in walk_nodes(stage.nodes))
    return sum(node.op_type == "ScatterElements" for node in nodes) > 1


def is_typed(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the element type of each result is known, so that an If may yield it."""
    typed = (site.body.outputs[o] for o in site.used_outputs())
    return all(facts.typings.declared.dtype(v) for v in typed)
