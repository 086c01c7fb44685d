"""Integers of a graph inside of a loop, as the host has them.

onnxruntime leaves a node on the host if it follows from a size that a kernel leaves there and all
that it reads is there: other such values, inputs of the graph, small constants. What comes from
around the graph is not. It is brought in by two ways: a count as the dimension of a tensor without
elements, whose shape is on the host wherever the tensor is; other integers through GatherND of a
type that the device has no kernel for, so that they are read where they were put.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from passes.device.host_facts import (
    HOST_ONLY,
    INTEGERS,
    HostFacts,
    ReadsOnHost,
    as_dimension,
    as_row,
    as_rows,
    computes_integers,
    graph_of,
    host_facts,
    is_constant,
)
from passes.device.host_graph import HostGraph
from passes.device.natural_numbers import SIZES, is_natural
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, graphs_in_loops, is_operator
from passes.graph.made import operand

__all__ = ["HostValues", "values_in_loops"]

_MOST_CONSTANTS = 100
"""The most elements of a constant that is on either side."""
_GATHER_ND = 11
"""The first opset that has GatherND."""


@dataclasses.dataclass(frozen=True)
class _HeldOnHost:
    """A value on the host.

    Attributes:
        value: The value.
        follows: Whether it follows from a size; what does not is taken along by what does.
    """

    value: ir.Value
    follows: bool = True


class HostValues:
    """Finds, or makes, what the host has of the integers of one graph."""

    def __init__(
        self, graph: ir.Graph, around: Mapping[ir.Graph, HostValues], facts: HostFacts
    ) -> None:
        """Set up for one graph.

        Args:
            graph: A graph inside of a loop.
            around: The same of graphs around it, as far as these are inside of a loop, too.
            facts: What is known of the model.
        """
        self._place = HostGraph(graph, facts)
        self._graph = graph
        self._around = around
        self._facts = facts
        self._held: dict[ir.Value, _HeldOnHost | None] = {}

    @property
    def made(self) -> list[ir.Node]:
        """All nodes that were made, in any graph. Some may be read by nothing."""
        return self._place.made

    def put_first(self, builder: Builder) -> None:
        """Put nodes in front of the graph."""
        self._place.put_first(builder)

    def of(self, value: ir.Value) -> ir.Value | None:
        """Return a value as the host has it by onnxruntime's rule; None where it cannot have it.

        Args:
            value: Integers of the graph, or of a graph around it.
        """
        held = self._hold(value)
        if held is None or held.follows:
            return None if held is None else held.value
        return self._place.follow(held.value)

    def runs_here(self, node: ir.Node) -> bool:
        """Return whether the host computes a node by itself, or because it was made for that."""
        if node in self.made:
            return True
        if not computes_integers(node, self._facts):
            return False
        held = self._hold(node.outputs[0])
        return held is not None and held.value is node.outputs[0]

    def _hold(self, value: ir.Value) -> _HeldOnHost | None:
        if value not in self._held:
            self._held[value] = None
            self._held[value] = self._find(value)
        return self._held[value]

    def _find(self, value: ir.Value) -> _HeldOnHost | None:
        constant = constant_value(value, _MOST_CONSTANTS)
        if constant is not None:
            return _HeldOnHost(self._place.own(value, constant), follows=False)
        if graph_of(value) is not self._graph:
            return self._captured(value)
        node = value.producer()
        if node is None:
            is_number = self._facts.typing.rank(value) == 0
            is_given = is_number and self._facts.dtype(value) in INTEGERS
            return _HeldOnHost(value, follows=False) if is_given else None
        if is_operator(node, SIZES) or self._is_read(node):
            return _HeldOnHost(value)
        if not computes_integers(node, self._facts):
            return None
        return self._row(node) or self._computed(node)

    def _is_read(self, node: ir.Node) -> bool:
        return is_operator(node, "GatherND") and self._facts.dtype(node.outputs[0]) == HOST_ONLY

    def _computed(self, node: ir.Node) -> _HeldOnHost | None:
        """Compute a node once more, from what the host has; as it is where it is there already."""
        held = [None if value is None else self._hold(value) for value in node.inputs]
        for position, (value, one) in enumerate(zip(node.inputs, held, strict=True)):
            if value is not None and one is None:
                return None
            if one and not is_constant(one.value) and self._facts.reads_on_host(node, position):
                return None
        inputs = [None if one is None else one.value for one in held]
        if not any(one is not None and one.follows for one in held):
            given = next((one for one in inputs if one and not is_constant(one)), None)
            start = None if given is None else self._place.follow(given)
            if start is None:
                return None
            inputs = [start if one is given else one for one in inputs]
        (output,) = node.outputs
        if inputs == list(node.inputs):
            return _HeldOnHost(output)
        builder = self._place.builder()
        made = builder.op(node.op_type, inputs, node.attributes)
        made.type = output.type
        self._place.put_behind(output, builder)
        return _HeldOnHost(made)

    def _row(self, node: ir.Node) -> _HeldOnHost | None:
        """Read rows of a table from around the graph."""
        if node.op_type != "Gather" or node.attributes.get_int("axis", 0) != 0:
            return None
        table, position = node.inputs
        assert table is not None
        assert position is not None
        if graph_of(table) is self._graph or is_constant(table):
            return None
        rank, index = self._facts.typing.rank(position), self.of(position)
        packed = None if index is None else self._packed(table, is_whole=False)
        if index is None or packed is None or rank is None:
            return None
        builder = self._place.builder()
        read = self._read(builder, packed, index, rank, node.outputs[0])
        self._place.put_behind(node.outputs[0], builder)
        return read

    def _captured(self, value: ir.Value) -> _HeldOnHost | None:
        facts, maker = self._facts, value.producer()
        is_number = facts.dtype(value) == ir.DataType.INT64 and facts.typing.rank(value) == 0
        if is_number and is_natural(value, facts.iterations):
            source = self._there(value)
            return None if source is None else _HeldOnHost(self._dimension(source))
        if is_operator(maker, "Shape") and facts.dtype(operand(maker, 0)) != ir.DataType.STRING:
            return self._asked_again(maker)
        packed = self._packed(value, is_whole=True)
        zero = None if packed is None else self._place.zero()
        if zero is None or packed is None:
            return None
        builder = self._place.builder()
        read = self._read(builder, packed, zero, 0, value)
        self._place.put_first(builder)
        return read

    def _asked_again(self, shape: ir.Node) -> _HeldOnHost:
        """Ask for a shape in the graph itself: no kernel reads the tensor for it."""
        builder = self._place.builder()
        again = builder.op("Shape", shape.inputs, shape.attributes)
        again.type, again.shape = shape.outputs[0].type, shape.outputs[0].shape
        self._place.put_first(builder)
        return _HeldOnHost(again)

    def _there(self, value: ir.Value) -> ir.Value | None:
        """Return a value of a graph around as it can be handed on without a copy in a loop."""
        graph = graph_of(value)
        around = None if graph is None else self._around.get(graph)
        return value if around is None else around.of(value)

    def _dimension(self, number: ir.Value) -> ir.Value:
        """Read a count from the shape of a tensor ``[0, number]`` that is made behind it."""
        builder = self._place.builder()
        read = builder.op("Shape", [self._place.hand(number, "dimension", as_dimension)])
        copy = builder.op("Gather", [read, builder.scalar(1)], {"axis": 0})
        copy.type, copy.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
        self._place.put_first(builder)
        return copy

    def _packed(self, value: ir.Value, *, is_whole: bool) -> ir.Value | None:
        """Put integers onto the host behind where they are made, as rows or as the one row."""
        is_integer = self._facts.dtype(value) in {ir.DataType.INT64, ir.DataType.INT32}
        source = self._there(value) if is_integer and self._facts.opset >= _GATHER_ND else None
        if source is None:
            return None
        if is_whole:
            return self._place.hand(source, "row", as_row)
        return self._place.hand(source, "rows", as_rows)

    def _read(
        self, builder: Builder, packed: ir.Value, index: ir.Value, rank: int, like: ir.Value
    ) -> _HeldOnHost:
        place = builder.op("Unsqueeze", [index, builder.ints(rank)])
        read = builder.op("GatherND", [packed, place])
        read.type = ir.TensorType(HOST_ONLY)
        dtype = self._facts.dtype(like)
        for one in dict.fromkeys((ir.DataType.INT64, dtype)):
            assert one is not None
            read = builder.op("Cast", [read], {"to": one.value})
            read.type = ir.TensorType(one)
        return _HeldOnHost(read)


def values_in_loops(
    model: ir.Model, reads_on_host: ReadsOnHost
) -> tuple[HostFacts | None, dict[ir.Graph, HostValues]]:
    """Return what the host has in every graph inside of a loop of the main graph, outer first.

    Args:
        model: The model.
        reads_on_host: Tells what the host reads.

    Returns:
        What is known of the model, None where it has no loop; and the values by graph.
    """
    inside = list(graphs_in_loops(model.graph))
    if not inside:
        return None, {}
    facts, found = host_facts(model, reads_on_host), dict[ir.Graph, HostValues]()
    for graph in inside:
        found[graph] = HostValues(graph, found, facts)
    return facts, found
