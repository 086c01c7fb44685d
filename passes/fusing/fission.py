"""What of a body is batched without a guard, where the rest stays in loops."""

from __future__ import annotations

from passes.fusing.cost import USUAL, cost_of_body
from passes.fusing.flatten import flattened
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.walk_site import walk_site
from passes.site import MapSite

__all__ = ["least_in_loops"]


def least_in_loops(site: MapSite, facts: FusionFacts, plain: FusedBody) -> FusedBody:
    """Return the form of a body without a guard that leaves the least to loops.

    Loops may collect lengths beside their values, and samples may be flattened. For ``auto`` the
    former must pay, and samples stay as they are: large ones are faster one by one, while they
    are in the cache.

    Args:
        site: The map.
        facts: What holds for all maps.
        plain: Its body, walked over without either.

    Returns:
        One of the forms.
    """
    best = plain
    if not any(plain.walk.loops):
        return best
    flat = None if facts.options.auto else flattened(site, facts.typings, facts.opset, facts.paths)
    for other in (site, flat):
        if other is None:
            continue
        body = walk_site(other, facts, None, collects_lengths=True)
        if facts.options.auto:
            before, after = (cost_of_body(one, facts.typings).of(USUAL) for one in (best, body))
            is_better = after < before
        else:
            is_better = body.nodes_in_loops < best.nodes_in_loops
        best = body if is_better else best
    return best
