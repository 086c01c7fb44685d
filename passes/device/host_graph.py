"""New nodes in a graph inside of a loop: put in front of it, or behind what they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.device.host_facts import ORIGIN, HostFacts, graph_of, is_constant
from passes.graph.builder import Builder
from passes.graph.graphs import captured_values
from passes.graph.opsets import to_opset_form

__all__ = ["HostGraph"]


class HostGraph:
    """A graph in which the host gets values of its own.

    Attributes:
        graph: The graph.
        made: All nodes that were made, in any graph. Some may be read by nothing.
    """

    def __init__(self, graph: ir.Graph, facts: HostFacts) -> None:
        """Set up for one graph.

        Args:
            graph: A graph inside of a loop.
            facts: What is known of the model.
        """
        self.graph = graph
        self.made: list[ir.Node] = []
        self._facts = facts
        self._started: dict[ir.Value, ir.Value] = {}
        self._zero: ir.Value | None = None
        self._last_first: ir.Node | None = None

    def builder(self) -> Builder:
        """Return a builder for nodes to be put into the graph."""
        return Builder(ORIGIN)

    def own(self, value: ir.Value, constant: np.ndarray) -> ir.Value:
        """Return a constant of the graph itself, which is on both sides there."""
        if graph_of(value) is self.graph:
            return value
        builder = self.builder()
        own = builder.constant(constant)
        self.put_first(builder)
        return own

    def hand(
        self, value: ir.Value, how: str, make: Callable[[Builder, ir.Value], ir.Value]
    ) -> ir.Value:
        """Make what hands a value on to graphs inside, once for all of them."""
        if (value, how) not in self._facts.handed:
            builder = self.builder()
            self._facts.handed[value, how] = make(builder, value)
            self.put_behind(value, builder)
        return self._facts.handed[value, how]

    def follow(self, value: ir.Value) -> ir.Value | None:
        """Add a zero that follows from a size."""
        if value not in self._started:
            zero = self.zero() if self._facts.dtype(value) == ir.DataType.INT64 else None
            if zero is None:
                return None
            builder = self.builder()
            started = builder.op("Add", [value, zero])
            started.type, started.shape = value.type, ir.Shape([])
            self.put_first(builder)
            self._started[value] = started
        return self._started[value]

    def zero(self) -> ir.Value | None:
        """Return a zero that follows from a size which is open until the model runs."""
        if self._zero is None:
            visible = [*captured_values(self.graph), *self.graph.inputs]
            source = next((value for value in visible if self._is_open(value)), None)
            if source is None:
                return None
            builder = self.builder()
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
        if known is None or typing.dtype(value) == ir.DataType.STRING or is_constant(value):
            return False
        return isinstance(known, ir.SequenceType) or typing.static_dims(value) is None

    def put_first(self, builder: Builder) -> None:
        """Put nodes in front of the graph, behind those that were put there before."""
        to_opset_form(builder.nodes, self._facts.opset)
        if self._last_first is None:
            _put_first(self.graph, builder.nodes)
        else:
            self.graph.insert_after(self._last_first, builder.nodes)
        self._last_first = builder.nodes[-1]
        self.made += builder.nodes

    def put_behind(self, value: ir.Value, builder: Builder) -> None:
        """Put nodes behind the one that makes a value, in any graph."""
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


def _put_first(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    graph.insert_before(graph[0], nodes)
