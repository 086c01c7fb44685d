"""Runs a Loop as given for few iterations, where what replaces its carried values pays later.

A sum or a last value becomes operators that run once: they are slower than a Loop of a few
iterations by some 20 microseconds at most, and leave neither a Loop nor an If. What doubles its
steps is slower for up to 15 iterations, and asks for their number as it is: it may ask once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from passes.fusing.cost import Cost, cost_of_body, cost_of_given, cost_of_stages
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.drafts import drop_uses, note
from passes.graph.graphs import subgraphs, walk_nodes
from passes.graph.node_copies import rank_alone
from passes.loops.copied_loop import copied_original
from passes.maps.operator import is_map
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["FewIterations", "few_iterations"]

_FEWEST = 4
"""Fewer iterations are not worth a Loop that is left."""


@dataclasses.dataclass(frozen=True)
class FewIterations:
    """A Loop that runs as given for few iterations.

    Attributes:
        few: For how many.
        enough: Whether there are more: a boolean scalar.
        asked: What computes that.
        copies: A copy of the Loop and of what its model makes of its outputs.
        yielded: What the copy yields.
        reader: A node that no graph holds, and that reads what takes the place of these values,
            whatever that is by now.
        path: The path of the Loop.
    """

    few: int
    enough: ir.Value
    asked: Sequence[ir.Node]
    copies: Sequence[ir.Node]
    yielded: Sequence[ir.Value]
    reader: ir.Node
    path: str

    @property
    def nodes(self) -> list[ir.Node]:
        """All nodes that were recorded."""
        return [*self.asked, *self.copies, self.reader]

    def write(self, plan: FusionPlan, before: Collection[ir.Node], typings: Typings) -> None:
        """Put what stands in the place of the Loop into a branch for more iterations.

        It stays as it is where something of it is read that the Loop does not yield.

        Args:
            plan: What its last map became, which says so.
            before: What stood in the graph before its maps were fused.
            typings: Both typings; they gain what is read in the place of the values.
        """
        graph, written = plan.site.graph, set(plan.site.originals[0].written)
        region = [node for node in graph if node in written or node not in before]
        if not self._write_around(region, typings):
            return
        plan.decision.few = self.few
        plan.decision.notes.append(
            f"up to {self.few} iterations run in the Loop as given, which is faster"
        )

    def _write_around(self, region: Sequence[ir.Node], typings: Typings) -> bool:
        """Put nodes into a branch; return whether that was possible."""
        graph = region[-1].graph
        assert graph is not None
        inside = set(walk_nodes(region))
        copied = dict(zip(self.reader.inputs, self.yielded, strict=True))
        drop_uses([self.reader])
        yielded = [v for node in region for v in node.outputs if _is_read_outside(v, inside)]
        if not yielded or not set(yielded) <= set(copied):
            drop_uses(self.nodes)
            return False
        outputs = [_in_place_of(value, inside) for value in yielded]
        typings.copy(dict(zip(yielded, outputs, strict=True)))
        graph.insert_after(region[-1], self.asked)
        graph.remove(region)
        branches = {
            "then_branch": (region, yielded),
            "else_branch": (self.copies, [copied[value] for value in yielded]),
        }
        for _, values in branches.values():
            for value in values:
                value.shape = None
        node = ir.Node(
            "",
            "If",
            [self.enough],
            [
                ir.AttrGraph(name, ir.Graph((), values, nodes=nodes, name=name.split("_")[0]))
                for name, (nodes, values) in branches.items()
            ],
            outputs=outputs,
            name=f"{self.path.rsplit('/', 1)[-1]}/If",
            metadata_props={ORIGIN_KEY: self.path},
        )
        note(node)
        graph.insert_after(self.asked[-1], node)
        graph.sort()
        return True


def _is_read_outside(value: ir.Value, inside: set[ir.Node]) -> bool:
    return value.is_graph_output() or any(use.node not in inside for use in value.uses())


def _in_place_of(value: ir.Value, inside: set[ir.Node]) -> ir.Value:
    """Return a value that is read instead of another one, outside of some nodes."""
    shape = value.shape if value.is_graph_output() else rank_alone(value.shape)
    new = ir.Value(name=value.name, type=value.type, shape=shape, doc_string=value.doc_string)
    new.metadata_props.update(value.metadata_props)
    graph = value.graph
    assert graph is not None
    for use in list(value.uses()):
        if use.node not in inside:
            use.node.replace_input_with(use.idx, new)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = new
    value.name = None
    return new


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
    if facts.options.for_device or site.elements[0][1].number(facts.typings.proven) is not None:
        return None
    if all(site.graph is not graph for graph in _outside_of_bodies(facts.model.graph)):
        return None
    behind = [node for node in original.written if not is_map(node)]
    if all(node.op_type != "If" for node in behind):
        return None
    few = _cost(plans, behind, facts).pays_from(cost_of_given(original.node)) or 0
    copied = None if few <= _FEWEST else copied_original(site, facts.typings)
    if copied is None:
        return None
    builder = Builder(original.path)
    count = _trip_count(site, facts.typings) or site.elements[0][1].scalar_count(
        builder, facts.typings.proven
    )
    enough = builder.op("Greater", [count, builder.scalar(few)])
    copies, values = copied
    read = {new: copy for new, copy in values.items() if new.uses() or new.is_graph_output()}
    reader = ir.node("Identity", list(read))
    note(reader)
    return FewIterations(
        few, enough, builder.nodes, copies, list(read.values()), reader, original.path
    )


def _outside_of_bodies(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, and those in branches: what runs once for each run of the model."""
    yield graph
    for node in graph:
        for _, inner in subgraphs(node) if node.op_type == "If" else ():
            yield from _outside_of_bodies(inner)


def _is_batched_whole(plan: FusionPlan) -> bool:
    """Whether a map is batched in one form, which needs no loop and no other form beside it."""
    if len(plan.site.originals) != 1 or list(plan.fused) != [None]:
        return False
    return not plan.fused[None].walk.limits


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
