"""Runs a Loop as given for few iterations, where what replaces its carried values pays later.

A sum or a last value becomes operators that run once: they are slower than a Loop of a few
iterations by some 20 microseconds at most, and leave neither a Loop nor an If. What doubles its
steps is slower for up to 15 iterations, and asks for their number as it is: it may ask once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from passes.fusing.cost import Cost, cost_of_body, cost_of_given, cost_of_stages
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.loop_beside import FewIterations, LoopCopy
from passes.graph.builder import Builder
from passes.graph.drafts import note
from passes.graph.graphs import subgraphs
from passes.loops.copied_loop import copied_original
from passes.maps.operator import is_map
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["few_iterations"]

_FEWEST = 4
"""Fewer iterations are not worth a Loop that is left."""


def few_iterations(plans: Sequence[FusionPlan], facts: FusionFacts) -> FewIterations | None:
    """Return how a Loop is run for few iterations; None where it is not worth it.

    Args:
        plans: What the maps become that the Loop was raised to.
        facts: What holds for all maps.
    """
    site = plans[0].site
    if not facts.options.auto or not all(_is_batched_whole(plan) for plan in plans):
        return None
    (original,) = site.originals
    lacks = facts.options.lacks
    if not original.patterns or original.rest or "If" in lacks or original.node.op_type in lacks:
        return None
    limits = [flag for plan in plans for flag in plan.fused[None].walk.limits]
    if limits and (len(plans) > 1 or plans[0].needs_samples):
        return None
    is_known = site.elements[0][1].number(facts.typings.proven) is not None
    if facts.options.for_device or (is_known and not limits):
        return None
    if all(site.graph is not graph for graph in _outside_of_bodies(facts.model.graph)):
        return None
    behind = [node for node in original.written if not is_map(node)]
    if not limits and all(node.op_type != "If" for node in behind):
        return None
    few = 0 if is_known else _few(plans, behind, facts)
    few = few if few > _FEWEST else 0
    if not few and not limits:
        return None
    early = [flag for plan in plans for flag in plan.fused[None].walk.early]
    tried = [_copy(site, facts) for asked in (few, early, limits) if asked]
    copies = [copy for copy in tried if copy is not None]
    if len(copies) < len(tried):
        return None
    builder = Builder(original.path)
    count = _trip_count(site, facts.typings) or site.elements[0][1].scalar_count(
        builder, facts.typings.proven
    )
    enough = builder.op("Greater", [count, builder.scalar(few)])
    return FewIterations(few, enough, builder.nodes, limits, early, copies, original.path)


def _few(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> int:
    """Return up to how many iterations the Loop as given is faster."""
    told = max(plan.few for plan in plans)
    if told:
        return told
    given = cost_of_given(plans[0].site.originals[0].node)
    return _cost(plans, behind, facts).pays_from(given) or 0


def _copy(site: MapSite, facts: FusionFacts) -> LoopCopy | None:
    """Record a Loop as given once more, None where that cannot be."""
    found = copied_original(site, facts.typings)
    if found is None:
        return None
    copies, values = found
    read = {new: copy for new, copy in values.items() if new.uses() or new.is_graph_output()}
    reader = ir.node("Identity", list(read))
    note(reader)
    return LoopCopy(copies, list(read.values()), reader)


def _outside_of_bodies(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, and those in branches: what runs once for each run of the model."""
    yield graph
    for node in graph:
        for _, inner in subgraphs(node) if node.op_type == "If" else ():
            yield from _outside_of_bodies(inner)


def _is_batched_whole(plan: FusionPlan) -> bool:
    """Whether a map is batched in one form, which needs no loop and no other form beside it."""
    return len(plan.site.originals) == 1 and list(plan.fused) == [None]


def _cost(plans: Sequence[FusionPlan], behind: Sequence[ir.Node], facts: FusionFacts) -> Cost:
    """Return what the maps cost, and the operators behind them."""
    costs = [cost_of_body(plan.fused[None], facts.typings) for plan in plans]
    fixed = sum(cost.fixed for cost in costs) + cost_of_stages(behind)
    return Cost(fixed, sum(cost.each for cost in costs))


def _trip_count(site: MapSite, typings: Typings) -> ir.Value | None:
    """Return how many iterations a Loop has at most, where the model has a scalar for it."""
    loop = site.originals[0].node
    value = loop.inputs[0] if loop.op_type == "Loop" else None
    return value if value is not None and typings.proven.rank(value) == 0 else None
