"""Integers of a graph inside of a loop, as the host has them.

onnxruntime leaves a node on the host if it follows from a size that a kernel leaves there and all
that it reads is there: other such values, inputs of the graph, small constants. What comes from
around the graph is not. It is brought in by two ways: a count as the dimension of a tensor without
elements, whose shape is on the host wherever the tensor is; other integers through GatherND of a
type that the device has no kernel for, so that they are read where they were put.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import (
    all_nodes,
    captured_values,
    constant_value,
    default_opset,
    is_default_domain,
    subgraphs,
)
from passes.natural_numbers import is_natural
from passes.opsets import to_opset_form
from passes.typing import Typing, type_values

__all__ = [
    "Facts",
    "HostValues",
    "ReadsOnHost",
    "computes_integers",
    "graph_of",
    "values_in_loops",
]

ReadsOnHost = Callable[[ir.Node, int], bool]
"""Whether a node, wherever it runs, reads the input at a position in the memory of the host."""

_ORIGIN = "host numbers"
_SIZES = frozenset({"SequenceLength", "Shape", "Size"})
_ARITHMETIC = frozenset(
    {"Abs", "Add", "And", "Cast", "Concat", "Div", "Equal", "Gather", "Greater", "Identity"}
    | {"Less", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "ReduceMax", "ReduceMin"}
    | {"ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Where"}
)
_INTEGERS = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL}
_MOST_CONSTANTS = 100
"""The most elements of a constant that is on either side."""
_GATHER_ND = 11
_HOST_ONLY = ir.DataType.UINT64
"""A type that GatherND has no kernel for on the device."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a model.

    Attributes:
        typing: Types of all values.
        reads_on_host: Tells what the host reads.
        iterations: The iteration numbers of all Loops.
        opset: Version of ONNX's operators.
        handed: What was made to hand a value on, by the value and how.
    """

    typing: Typing
    reads_on_host: ReadsOnHost
    iterations: set[ir.Value]
    opset: int
    handed: dict[tuple[ir.Value, str], ir.Value] = dataclasses.field(default_factory=dict)

    def dtype(self, value: ir.Value) -> ir.DataType | None:
        """Return the element type of a value, new ones included."""
        return self.typing.dtype(value) or value.dtype


@dataclasses.dataclass(frozen=True)
class _Held:
    """A value on the host.

    Attributes:
        value: The value.
        follows: Whether it follows from a size; what does not is taken along by what does.
    """

    value: ir.Value
    follows: bool = True


class HostValues:
    """Finds, or makes, what the host has of the integers of one graph.

    Attributes:
        made: All nodes that were made, in any graph. Some may be read by nothing.
    """

    def __init__(
        self, graph: ir.Graph, around: Mapping[ir.Graph, HostValues], facts: Facts
    ) -> None:
        """Set up for one graph.

        Args:
            graph: A graph inside of a loop.
            around: The same of graphs around it, as far as these are inside of a loop, too.
            facts: What is known of the model.
        """
        self.made: list[ir.Node] = []
        self._graph = graph
        self._around = around
        self._facts = facts
        self._held: dict[ir.Value, _Held | None] = {}
        self._started: dict[ir.Value, ir.Value] = {}
        self._zero: ir.Value | None = None
        self._last_first: ir.Node | None = None

    def of(self, value: ir.Value) -> ir.Value | None:
        """Return a value as the host has it by onnxruntime's rule; None where it cannot have it.

        Args:
            value: Integers of the graph, or of a graph around it.
        """
        held = self._hold(value)
        if held is None or held.follows:
            return None if held is None else held.value
        return self._follow(held.value)

    def runs_here(self, node: ir.Node) -> bool:
        """Return whether the host computes a node by itself, or because it was made for that."""
        if node in self.made:
            return True
        if not computes_integers(node, self._facts):
            return False
        held = self._hold(node.outputs[0])
        return held is not None and held.value is node.outputs[0]

    def _hold(self, value: ir.Value) -> _Held | None:
        if value not in self._held:
            self._held[value] = None
            self._held[value] = self._find(value)
        return self._held[value]

    def _find(self, value: ir.Value) -> _Held | None:
        constant = constant_value(value, _MOST_CONSTANTS)
        if constant is not None:
            return _Held(self._own(value, constant), follows=False)
        if graph_of(value) is not self._graph:
            return self._captured(value)
        node = value.producer()
        if node is None:
            is_number = self._facts.typing.rank(value) == 0
            is_given = is_number and self._facts.dtype(value) in _INTEGERS
            return _Held(value, follows=False) if is_given else None
        if is_default_domain(node) and (node.op_type in _SIZES or self._is_read(node)):
            return _Held(value)
        if not computes_integers(node, self._facts):
            return None
        return self._row(node) or self._computed(node)

    def _own(self, value: ir.Value, constant: np.ndarray) -> ir.Value:
        """Return a constant of the graph itself, which is on both sides there."""
        if graph_of(value) is self._graph:
            return value
        builder = Builder(_ORIGIN)
        own = builder.constant(constant)
        self.put_first(builder)
        return own

    def _is_read(self, node: ir.Node) -> bool:
        return node.op_type == "GatherND" and self._facts.dtype(node.outputs[0]) == _HOST_ONLY

    def _computed(self, node: ir.Node) -> _Held | None:
        """Compute a node once more, from what the host has; as it is where it is there already."""
        held = [None if value is None else self._hold(value) for value in node.inputs]
        for position, (value, one) in enumerate(zip(node.inputs, held, strict=True)):
            if value is not None and one is None:
                return None
            if one and not _is_constant(one.value) and self._facts.reads_on_host(node, position):
                return None
        inputs = [None if one is None else one.value for one in held]
        if not any(one is not None and one.follows for one in held):
            given = next((one for one in inputs if one and not _is_constant(one)), None)
            start = None if given is None else self._follow(given)
            if start is None:
                return None
            inputs = [start if one is given else one for one in inputs]
        (output,) = node.outputs
        if inputs == list(node.inputs):
            return _Held(output)
        builder = Builder(_ORIGIN)
        made = builder.op(node.op_type, inputs, node.attributes)
        made.type = output.type
        self._put_behind(output, builder)
        return _Held(made)

    def _row(self, node: ir.Node) -> _Held | None:
        """Read rows of a table from around the graph."""
        if node.op_type != "Gather" or node.attributes.get_int("axis", 0) != 0:
            return None
        table, position = node.inputs
        assert table is not None
        assert position is not None
        if graph_of(table) is self._graph or _is_constant(table):
            return None
        rank, index = self._facts.typing.rank(position), self.of(position)
        packed = None if index is None else self._packed(table, is_whole=False)
        if index is None or packed is None or rank is None:
            return None
        builder = Builder(_ORIGIN)
        read = self._read(builder, packed, index, rank, node.outputs[0])
        self._put_behind(node.outputs[0], builder)
        return read

    def _captured(self, value: ir.Value) -> _Held | None:
        facts = self._facts
        is_number = facts.dtype(value) == ir.DataType.INT64 and facts.typing.rank(value) == 0
        if is_number and is_natural(value, facts.iterations):
            source = self._there(value)
            return None if source is None else _Held(self._dimension(source))
        packed = self._packed(value, is_whole=True)
        zero = None if packed is None else self._start()
        if zero is None or packed is None:
            return None
        builder = Builder(_ORIGIN)
        read = self._read(builder, packed, zero, 0, value)
        self.put_first(builder)
        return read

    def _there(self, value: ir.Value) -> ir.Value | None:
        """Return a value of a graph around as it can be handed on without a copy in a loop."""
        graph = graph_of(value)
        around = None if graph is None else self._around.get(graph)
        return value if around is None else around.of(value)

    def _dimension(self, number: ir.Value) -> ir.Value:
        """Read a count from the shape of a tensor ``[0, number]`` that is made behind it."""
        builder = Builder(_ORIGIN)
        read = builder.op("Shape", [self._hand(number, "dimension", _as_dimension)])
        copy = builder.op("Gather", [read, builder.scalar(1)], {"axis": 0})
        copy.type, copy.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
        self.put_first(builder)
        return copy

    def _packed(self, value: ir.Value, *, is_whole: bool) -> ir.Value | None:
        """Put integers onto the host behind where they are made, as rows or as the one row."""
        is_integer = self._facts.dtype(value) in {ir.DataType.INT64, ir.DataType.INT32}
        source = self._there(value) if is_integer and self._facts.opset >= _GATHER_ND else None
        if source is None:
            return None
        if is_whole:
            return self._hand(source, "row", _as_row)
        return self._hand(source, "rows", _as_rows)

    def _hand(
        self, value: ir.Value, how: str, make: Callable[[Builder, ir.Value], ir.Value]
    ) -> ir.Value:
        """Make what hands a value on to graphs inside, once for all of them."""
        if (value, how) not in self._facts.handed:
            builder = Builder(_ORIGIN)
            self._facts.handed[value, how] = make(builder, value)
            self._put_behind(value, builder)
        return self._facts.handed[value, how]

    def _read(
        self, builder: Builder, packed: ir.Value, index: ir.Value, rank: int, like: ir.Value
    ) -> _Held:
        place = builder.op("Unsqueeze", [index, builder.ints(rank)])
        read = builder.op("GatherND", [packed, place])
        read.type = ir.TensorType(_HOST_ONLY)
        dtype = self._facts.dtype(like)
        for one in dict.fromkeys((ir.DataType.INT64, dtype)):
            assert one is not None
            read = builder.op("Cast", [read], {"to": one.value})
            read.type = ir.TensorType(one)
        return _Held(read)

    def _follow(self, value: ir.Value) -> ir.Value | None:
        """Add a zero that follows from a size."""
        if value not in self._started:
            zero = self._start() if self._facts.dtype(value) == ir.DataType.INT64 else None
            if zero is None:
                return None
            builder = Builder(_ORIGIN)
            started = builder.op("Add", [value, zero])
            started.type, started.shape = value.type, ir.Shape([])
            self.put_first(builder)
            self._started[value] = started
        return self._started[value]

    def _start(self) -> ir.Value | None:
        """Return a zero that follows from a size which is open until the model runs."""
        if self._zero is None:
            visible = [*captured_values(self._graph), *self._graph.inputs]
            source = next((value for value in visible if self._is_open(value)), None)
            if source is None:
                return None
            builder = Builder(_ORIGIN)
            is_sequence = self._facts.typing.is_sequence(source)
            size = builder.op("SequenceLength" if is_sequence else "Size", [source])
            self._zero = builder.op("Sub", [size, size])
            for made in (size, self._zero):
                made.type, made.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
            self.put_first(builder)
        return self._zero

    def _is_open(self, value: ir.Value) -> bool:
        typing = self._facts.typing
        known = typing[value].type
        if known is None or typing.dtype(value) == ir.DataType.STRING or _is_constant(value):
            return False
        return isinstance(known, ir.SequenceType) or typing.static_dims(value) is None

    def put_first(self, builder: Builder) -> None:
        """Put nodes in front of the graph, behind those that were put there before."""
        to_opset_form(builder.nodes, self._facts.opset)
        if self._last_first is None:
            _put_first(self._graph, builder.nodes)
        else:
            self._graph.insert_after(self._last_first, builder.nodes)
        self._last_first = builder.nodes[-1]
        self.made += builder.nodes

    def _put_behind(self, value: ir.Value, builder: Builder) -> None:
        node, graph = value.producer(), graph_of(value)
        assert graph is not None
        to_opset_form(builder.nodes, self._facts.opset)
        if node is None:
            _put_first(graph, builder.nodes)
        else:
            graph.insert_after(node, builder.nodes)
            if node is self._last_first:
                self._last_first = builder.nodes[-1]
        self.made += builder.nodes


def _facts_of(model: ir.Model, reads_on_host: ReadsOnHost) -> Facts:
    loops = (node for node in all_nodes(model) if is_default_domain(node))
    numbers = {
        graph.inputs[0] for node in loops if node.op_type == "Loop" for _, graph in subgraphs(node)
    }
    return Facts(type_values(model), reads_on_host, numbers, default_opset(model))


def values_in_loops(
    model: ir.Model, reads_on_host: ReadsOnHost
) -> tuple[Facts | None, dict[ir.Graph, HostValues]]:
    """Return what the host has in every graph inside of a loop of the main graph, outer first.

    Args:
        model: The model.
        reads_on_host: Tells what the host reads.

    Returns:
        What is known of the model, None where it has no loop; and the values by graph.
    """
    inside = list(_in_loops(model.graph))
    if not inside:
        return None, {}
    facts, found = _facts_of(model, reads_on_host), dict[ir.Graph, HostValues]()
    for graph in inside:
        found[graph] = HostValues(graph, found, facts)
    return facts, found


def _in_loops(graph: ir.Graph, *, is_inside: bool = False) -> Iterator[ir.Graph]:
    for node in graph:
        is_loop = is_default_domain(node) and node.op_type in ("Loop", "Scan")
        for _, inner in subgraphs(node):
            if is_inside or is_loop:
                yield inner
            yield from _in_loops(inner, is_inside=is_inside or is_loop)


def _as_dimension(builder: Builder, number: ir.Value) -> ir.Value:
    vector = builder.op("Unsqueeze", [number, builder.ints(0)])
    shape = builder.op("Concat", [builder.ints(0), vector], {"axis": 0})
    for made in (vector, shape):
        made.type = ir.TensorType(ir.DataType.INT64)
    return builder.op("ConstantOfShape", [shape])


def _as_rows(builder: Builder, value: ir.Value) -> ir.Value:
    wide = builder.op("Cast", [value], {"to": ir.DataType.INT64.value})
    host = builder.op("Cast", [wide], {"to": _HOST_ONLY.value})
    first = builder.op("Unsqueeze", [host, builder.ints(0)])
    rows = builder.op("GatherND", [first, builder.ints(0)])
    rows.type = ir.TensorType(_HOST_ONLY)
    return rows


def _as_row(builder: Builder, value: ir.Value) -> ir.Value:
    return _as_rows(builder, builder.op("Unsqueeze", [value, builder.ints(0)]))


def computes_integers(node: ir.Node, facts: Facts) -> bool:
    """Return whether a node is arithmetic on integers or truth values."""
    return (
        is_default_domain(node)
        and node.op_type in _ARITHMETIC
        and len(node.outputs) == 1
        and facts.dtype(node.outputs[0]) in _INTEGERS
    )


def graph_of(value: ir.Value) -> ir.Graph | None:
    """Return the graph that a value belongs to."""
    node = value.producer()
    found = value.graph if node is None else node.graph
    return found if isinstance(found, ir.Graph) else None


def _put_first(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    graph.insert_before(graph[0], nodes)


def _is_constant(value: ir.Value) -> bool:
    return constant_value(value) is not None
