"""Replaces Loops and Scans of a small known number of iterations by copies of their bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.batching.table import may_draw
from passes.body_copies import copy_body
from passes.builder import ORIGIN_KEY, Builder, drop_uses
from passes.ceilings import ceiling_of
from passes.copies import counted, settle, weight_of
from passes.decisions import Decision, Verdict
from passes.folding import Folder
from passes.graphs import (
    default_opset,
    graphs_inside,
    node_paths,
    walk_nodes,
    with_subgraphs,
)
from passes.inline import functions_holding, inline_functions
from passes.names import make_names_unique
from passes.opset_forms import to_opset_form
from passes.prepare import move_initializers
from passes.promises import Promises
from passes.reading.counts import check_range, count_trips
from passes.reading.facts import NotAMapError, find_facts
from passes.reading.iterations import Collected, Iteration, is_iteration, read_iteration
from passes.splice import splice
from passes.typing import Typing, type_values

__all__ = ["MOST_NODES", "UnrollLoopsPass"]

MOST_NODES = 2048
"""A Loop or Scan becomes so many nodes at most. Beyond that the model is too large to look at, and
to load."""


class UnrollLoopsPass(ir.passes.InPlacePass):
    """Replace Loops and Scans by copies of their bodies, for a target that does not have them.

    1. The number of iterations is known if it follows from constants, proven shapes and promises.
    2. A Loop that becomes more than `MOST_NODES` nodes stays, and so does one that draws random
       numbers, of which a copy would repeat the draw.
    3. Loops that a rewrite wrote itself stay.
    4. Functions of the model that hold such a Loop are inlined.

    Attributes:
        decisions: What was done with each Loop and Scan that is gone, in the order of the work.
    """

    def __init__(
        self, lacks: Collection[str] = ("Loop", "Scan"), promises: Promises | None = None
    ) -> None:
        """Set up the pass.

        Args:
            lacks: Operators that the target does not have.
            promises: What the caller vouches for.
        """
        super().__init__()
        self._lacks = lacks
        self._promises = promises
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Unroll the Loops of the main graph and of all graphs in it, inner ones first."""
        self.decisions = []
        chosen = functions_holding(model, self._is_wanted)
        if not chosen and not self._find(model):
            return ir.passes.PassResult(model, False)
        modified = make_names_unique(model)
        if chosen:
            inline_functions(model, chosen)
            modified = True
        while (copies := self._unroll(model)) is not None:
            settle(model, copies)
        return ir.passes.PassResult(model, modified or bool(self.decisions))

    def _find(self, model: ir.Model) -> list[ir.Node]:
        return [
            node
            for graph in reversed(list(with_subgraphs(model.graph)))
            for node in graph
            if self._is_wanted(node)
        ]

    def _is_wanted(self, node: ir.Node) -> bool:
        is_given = is_iteration(node) and ORIGIN_KEY not in node.metadata_props
        return is_given and not ceiling_of(node) and node.op_type in self._lacks

    def _unroll(self, model: ir.Model) -> list[ir.Node] | None:
        """Unroll Loops in which none was unrolled; return the copies, None if there are none."""
        typing = type_values(model, proven=True, ranks=False, promises=self._promises)
        paths, opset = node_paths(model), default_opset(model)
        changed: set[ir.Graph | None] = set()
        copies: list[ir.Node] = []
        for node in self._find(model):
            if changed.intersection(graphs_inside(node)):
                continue
            unrolled = _Unrolled.of(node, paths[node], typing, model, opset)
            if unrolled is None:
                continue
            changed.add(node.graph)
            copies.extend(walk_nodes(unrolled.builder.nodes))
            unrolled.apply(typing)
            self.decisions.append(unrolled.decision)
        return copies if changed else None


@dataclasses.dataclass(frozen=True)
class _Unrolled:
    """A Loop and the copies of its body: recorded, not yet put into its graph."""

    node: ir.Node
    builder: Builder
    results: list[tuple[ir.Value, ir.Value]]
    decision: Decision

    @classmethod
    def of(
        cls, node: ir.Node, path: str, typing: Typing, model: ir.Model, opset: int
    ) -> _Unrolled | None:
        """Record the copies of a body; None if the Loop is not to be unrolled."""
        iteration = read_iteration(node)
        if iteration is None or may_draw(node, opset):
            return None
        folder = Folder(typing)
        count = _count(iteration, typing, folder)
        collected = [one for one in iteration.collected if _is_read(one.result)]
        if count is None or count > MOST_NODES or (not count and collected):
            return None
        weight = count * weight_of(iteration.body, folder)
        if weight > MOST_NODES:
            return None
        move_initializers(iteration.body, model.graph)
        builder = Builder(path)
        results = _write(builder, iteration, collected, count, typing)
        to_opset_form(builder.nodes, opset)
        copies = counted(count, "copy", "copies")
        form = f"{copies}, {counted(weight, 'node', 'nodes')}"
        return cls(node, builder, results, Decision(path, node.op_type, Verdict.UNROLLED, form))

    def apply(self, typing: Typing) -> None:
        """Put the copies into the place of the Loop."""
        body = self.node.attributes["body"].as_graph()
        typing.copy(splice(self.builder, self.node, self.results))
        drop_uses(list(body))


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _count(iteration: Iteration, typing: Typing, folder: Folder) -> int | None:
    """Return how often the body runs, None if that is not known."""
    facts = find_facts(iteration, typing)
    try:
        trips = count_trips(facts, typing)
        check_range(facts, trips)
    except NotAMapError:
        return None
    if trips.gate is not None:
        gate = folder.value(trips.gate)
        if gate is None or gate.size != 1:
            return None
        if not gate.reshape(()).item():
            return 0
    return trips.number.number


def _write(
    builder: Builder,
    iteration: Iteration,
    collected: Sequence[Collected],
    count: int,
    typing: Typing,
) -> list[tuple[ir.Value, ir.Value]]:
    """Record the copies; return each output of the node that is read, and its new value."""
    states = [carried.initial for carried in iteration.states]
    held: list[list[ir.Value]] = [[] for _ in collected]
    for trip in range(count):
        values = _inputs(builder, iteration, trip, count, typing)
        values |= {c.inner: now for c, now in zip(iteration.states, states, strict=True)}
        builder.nodes.extend(copy_body(iteration.body, values))
        typing.copy(values)
        states = [_now(values, carried.next) for carried in iteration.states]
        for row, one in zip(held, collected, strict=True):
            row.append(_now(values, one.inner))
    results = [
        (carried.result, now)
        for carried, now in zip(iteration.states, states, strict=True)
        if _is_read(carried.result)
    ]
    results += [
        (one.result, _stacked(builder, one, row)) for one, row in zip(collected, held, strict=True)
    ]
    return results


def _now(values: dict[ir.Value, ir.Value | None], value: ir.Value) -> ir.Value:
    found = values.get(value, value)
    assert found is not None
    return found


def _inputs(
    builder: Builder, iteration: Iteration, trip: int, count: int, typing: Typing
) -> dict[ir.Value, ir.Value | None]:
    """Return what an iteration is handed beside the carried values."""
    values: dict[ir.Value, ir.Value | None] = {}
    for own, new in (
        (iteration.number, builder.scalar(trip)),
        (iteration.goes_on, builder.flag(True)),
    ):
        if own is not None:
            has_rank = typing.rank(own) == 1
            values[own] = builder.op("Reshape", [new, builder.ints(1)]) if has_rank else new
    for inner, source in iteration.scanned:
        place = count - 1 - trip if source.is_reversed else trip
        attributes = {"axis": source.axis}
        values[inner] = builder.op("Gather", [source.tensor, builder.scalar(place)], attributes)
    return values


def _stacked(builder: Builder, one: Collected, row: Sequence[ir.Value]) -> ir.Value:
    """Record the results of all iterations, side by side along a new axis."""
    axis = builder.ints(one.axis)
    rows = [builder.op("Unsqueeze", [value, axis]) for value in row]
    if one.is_reversed:
        rows.reverse()
    return rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": one.axis})
