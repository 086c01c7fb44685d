"""Writes what is left of a Loop or Scan that was split."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import PATH_KEY, reads_of
from passes.graph.node_copies import copy_value, rank_alone
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried, Collected, Iteration
from passes.reading.nodes import copy_into
from passes.reading.not_a_map import NotAMapError
from passes.typing import Typing, Typings

__all__ = ["write_rest"]


def write_rest(
    builder: Builder,
    facts: LoopFacts,
    results: Collection[ir.Value],
    given: Mapping[ir.Value, ir.Value],
    collected: Sequence[ir.Value],
    typings: Typings,
) -> tuple[ir.Node, dict[ir.Value, ir.Value]]:
    """Record a Loop that yields some of what another one yields, and reads rows of the rest.

    Args:
        builder: Writes the graph around it.
        facts: The Loop or Scan as it is.
        results: The outputs that it goes on yielding.
        given: Values of the body that are rows of a tensor, with that tensor.
        collected: Values of the body that are stacked beside the outputs.
        typings: Both typings.

    Returns:
        The node; and for each of the results and collected values the output that is its.
    """
    return _RestWriter(builder, facts, given, typings).write(results, collected)


class _RestWriter:
    def __init__(
        self,
        builder: Builder,
        facts: LoopFacts,
        given: Mapping[ir.Value, ir.Value],
        typings: Typings,
    ) -> None:
        self.builder, self.facts, self.given = builder, facts, given
        self.typing, self.proven = typings.declared, typings.proven
        self.iteration: Iteration = facts.iteration

    def write(
        self, results: Collection[ir.Value], collected: Sequence[ir.Value]
    ) -> tuple[ir.Node, dict[ir.Value, ir.Value]]:
        iteration = self.iteration
        stacked = [one for one in iteration.collected if one.result in results]
        stacked += [Collected(value, value) for value in collected]
        for row in (*collected, *self.given):
            if isinstance(self.typing[row].type, ir.SequenceType | ir.OptionalType):
                detail = f"'{row.name}' is no tensor, and a Loop collects tensors alone"
                raise NotAMapError(Code.UNKNOWN_SHAPE, detail, row.producer())
        states = [s for s in iteration.states if s.result in results]
        roots = [*(s.next for s in states), *(one.inner for one in stacked)]
        if iteration.next_goes_on is not None:
            roots.append(iteration.next_goes_on)
        needed = self._needed(roots)
        states = [s for s in iteration.states if s in states or s.inner in needed]
        values: dict[ir.Value, ir.Value | None] = {}
        scanned = [(inner, source) for inner, source in iteration.scanned if inner in needed]
        tensors = {} if iteration.number is not None else dict(self.given)
        if not tensors:
            scanned = scanned or iteration.scanned[:1]
        heads = [iteration.number, iteration.goes_on, *(s.inner for s in states)]
        heads += [*(inner for inner, _ in scanned), *tensors]
        inputs = []
        for value in heads:
            if value is not None:
                values[value] = copy_value(value)
                inputs.append(values[value])
        for value in tensors:  # what its type says is that of the body as given
            self._type_alone(values[value], value, self.typing)
        for value in (s.inner for s in states if s.inner.producer() is not None):
            self._type_alone(values[value], value, self.proven)

        def write_body(inner: Builder) -> Sequence[ir.Value]:
            if iteration.number is not None and self.given:
                position = self._position(inner, iteration.number, values)
                for value, tensor in self.given.items():
                    values[value] = inner.op("Gather", [tensor, position], {"axis": 0})
            for node in iteration.body:
                if node in needed:
                    copy_into(inner, node, values, self.facts.evaluator)
            ends = [s.next for s in states] + [one.inner for one in stacked]
            if iteration.next_goes_on is not None:
                ends.insert(0, iteration.next_goes_on)
            made = (values.get(v, v) for v in ends)
            return [v for v in made if v is not None]

        body = self.builder.subgraph("rest", [v for v in inputs if v is not None], write_body)
        self._type_outputs(body, states, stacked)
        rows = [one.inner for one in stacked]
        self._type_rows(body.outputs[len(body.outputs) - len(rows) :], rows)
        node = self._node(body, states, scanned, tensors, stacked)
        own = [*(s.result for s in states), *(one.result for one in stacked)]
        return node, dict(zip(own, node.outputs, strict=True))

    def _position(
        self, inner: Builder, number: ir.Value, values: Mapping[ir.Value, ir.Value | None]
    ) -> ir.Value | None:
        """Return the iteration number without the axis that a body may declare it with."""
        if self.typing.rank(number) != 1:
            return values[number]
        return inner.op("Reshape", [values[number], inner.ints()])

    def _needed(self, roots: Sequence[ir.Value]) -> set[ir.Value | ir.Node]:
        """Return the nodes and inputs of the body that some values need in all iterations."""
        nexts = {s.inner: s.next for s in self.iteration.states}
        needed: set[ir.Value | ir.Node] = set()
        pending = list(roots)
        while pending:
            value = pending.pop()
            if value in needed or value in self.given:
                continue
            needed.add(value)
            node = value.producer()
            if value in nexts:
                pending.append(nexts[value])
            elif node is not None and value in self.facts.inside:
                needed.add(node)
                pending += reads_of(node)
        return needed

    def _type_alone(self, made: ir.Value | None, value: ir.Value, typing: Typing) -> None:
        """Give a value the element type and the rank of a value of the body as given."""
        dtype, dims = self.typing.dtype(value), typing.dims(value)
        if dtype is None:
            detail = f"the element type of '{value.name}' is not known"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, value.producer())
        assert made is not None
        made.type = ir.TensorType(dtype)
        made.shape = None if dims is None else ir.Shape([None] * len(dims))

    def _type_rows(self, made: Sequence[ir.Value], rows: Sequence[ir.Value]) -> None:
        """Give rows the dimensions that are proven: without iterations a Loop tells no others."""
        for new, row in zip(made, rows, strict=True):
            dims = self.proven.dims(row)
            if dims is not None and all(isinstance(dim, int) for dim in dims):
                if new.type is None:  # a shape without a type is not written
                    self._type_alone(new, row, self.typing)
                new.shape = ir.Shape(dims)

    def _type_outputs(
        self, body: ir.Graph, states: Sequence[Carried], stacked: Sequence[Collected]
    ) -> None:
        iteration = self.iteration
        given = {*(s.inner for s in iteration.states), *(v for v, _ in iteration.scanned)}
        first = [] if iteration.next_goes_on is None else [iteration.next_goes_on]
        old = [*first, *(s.next for s in states), *(one.inner for one in stacked)]
        for value, made in zip(old, body.outputs, strict=True):
            if value in iteration.body.outputs:
                made.type, made.shape = value.type, value.shape
            elif value in given and value.type is not None:
                made.type, made.shape = value.type, rank_alone(value.shape)
            else:
                self._type_alone(made, value, self.typing)

    def _node(
        self,
        body: ir.Graph,
        states: Sequence[Carried],
        scanned: Sequence[tuple[ir.Value, object]],
        tensors: Mapping[ir.Value, ir.Value],
        stacked: Sequence[Collected],
    ) -> ir.Node:
        iteration, count = self.iteration, len(states) + len(stacked)
        initial = [s.initial for s in states]
        if iteration.number is not None:
            inputs = [iteration.trips, iteration.condition, *initial]
            node = self.builder.node("Loop", inputs, {"body": body}, outputs=count)
        else:
            sources = [s for inner, s in iteration.scanned if inner in dict(scanned)]
            inputs = [*initial, *(s.tensor for s in sources), *tensors.values()]
            extra = [0] * len(tensors)
            attributes = {
                "body": body,
                "num_scan_inputs": len(sources) + len(tensors),
                "scan_input_axes": [*(s.axis for s in sources), *extra],
                "scan_input_directions": [*(int(s.is_reversed) for s in sources), *extra],
                "scan_output_axes": [one.axis for one in stacked],
                "scan_output_directions": [int(one.is_reversed) for one in stacked],
            }
            kept = {k: v for k, v in attributes.items() if v != []}
            node = self.builder.node("Scan", inputs, kept, outputs=count)
        node.name = iteration.node.name
        if PATH_KEY in iteration.node.meta:
            node.meta[PATH_KEY] = iteration.node.meta[PATH_KEY]
        return node
