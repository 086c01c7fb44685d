"""Flattens samples that differ along several axes where only elementwise work is done on them.

Elementwise operators do not ask how elements are arranged, and neither does a reduction over all
axes that differ, nor a Reshape. Up to there the axes may be one, along which samples are packed::

    x [h, w, 3] -> Mul -> Add -> ReduceMean over h, w
    x [h, w, 3] -> Reshape [-1, 3] -> Mul -> Add -> ReduceMean over the first axis

The new body still is one for a single sample, and yields the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.fusing.spans import POOLS, Span, elementwise_nodes, reduced_axes, span_of
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.node_copies import copy_node, copy_of
from passes.site import MapSite
from passes.typing import Typings, ValueType

__all__ = ["flattened"]


def flattened(
    site: MapSite, typings: Typings, opset: int, paths: MutableMapping[ir.Node, str]
) -> MapSite | None:
    """Return a map whose body flattens what it can, None if that is nothing.

    Args:
        site: The map; it stays as it is. The new body stands in no model.
        typings: Gains the types of the new body.
        opset: Version of ONNX's operators.
        paths: Gains the names, for messages, of what the new nodes stand for.
    """
    nodes = elementwise_nodes(site.body, typings.proven, opset)
    return _FlatWriter(site, typings, opset, nodes).write(paths) if nodes else None


class _FlatWriter:
    """Writes a body in which some nodes work on flattened samples."""

    def __init__(self, site: MapSite, typings: Typings, opset: int, nodes: set[ir.Node]) -> None:
        self._site = site
        self._typings = typings
        self._nodes = nodes
        self._builder = Builder(site.path)
        self._operators = Operators(self._builder, opset)
        self._values: dict[ir.Value, ir.Value | None] = {}
        self._flat: dict[ir.Value, ir.Value] = {}

    def write(self, paths: MutableMapping[ir.Node, str]) -> MapSite:
        """Return the map with the new body."""
        body = self._site.body
        inputs = [ir.Value(name=v.name, type=v.type, shape=v.shape) for v in body.inputs]
        self._values.update(zip(body.inputs, inputs, strict=True))
        self._typings.copy(self._values)
        for node in body:
            before = len(self._builder.nodes)
            self._write_node(node)
            for new in self._builder.nodes[before:]:
                paths[new] = paths.get(node, node.op_type)
        self._type_constants()
        outputs = [self._read(value) for value in body.outputs]
        graph = ir.Graph(inputs, outputs, nodes=self._builder.nodes, name=body.name)
        return dataclasses.replace(
            self._site,
            body=graph,
            elements=[(self._read(inner), source) for inner, source in self._site.elements],
            shared=[(self._read(inner), outer) for inner, outer in self._site.shared],
        )

    def _type_constants(self) -> None:
        for node in self._builder.nodes:
            (value, *_) = node.outputs
            array = constant_value(value) if node.op_type == "Constant" else None
            if array is not None and value not in self._values.values():
                for typing in (self._typings.declared, self._typings.proven):
                    typing.set(value, ValueType(value.type, tuple(array.shape)))

    def _read(self, value: ir.Value) -> ir.Value:
        return copy_of(self._values, value)

    def _write_node(self, node: ir.Node) -> None:
        if node in self._nodes:
            self._write_elementwise(node)
        elif node.inputs and node.inputs[0] in self._flat and self._ends(node):
            self._write_end(node, self._flat[node.inputs[0]])
        else:
            self._builder.nodes.append(copy_node(node, self._values))
            self._typings.copy({v: self._values[v] for v in node.outputs})

    def _ends(self, node: ir.Node) -> bool:
        """Whether a node reads what flattened nodes yield, not what was flattened for them."""
        value = node.inputs[0]
        return value is not None and value.producer() in self._nodes

    def _write_elementwise(self, node: ir.Node) -> None:
        span = span_of(node.outputs[0], self._typings.proven)
        assert span is not None
        given = {v: self._flattened(v, span) for v in node.inputs if v is not None}
        new = copy_node(node, dict(given))
        self._builder.nodes.append(new)
        self._enter(node.outputs[0], new.outputs[0], span)

    def _enter(self, old: ir.Value, new: ir.Value, span: Span) -> None:
        """Type a flattened value."""
        symbol = "*".join(map(str, span.dims))
        dims = (*span.before, symbol, *span.behind)
        for typing in (self._typings.declared, self._typings.proven):
            typing.set(new, ValueType(typing[old].type, dims))
        new.shape = None
        self._flat[old] = new

    def _flattened(self, value: ir.Value, span: Span) -> ir.Value:
        """Return a value with one axis in the place of a span, or none."""
        if value in self._flat:
            return self._flat[value]
        new = self._read(value)
        own = span_of(value, self._typings.proven)
        if own is not None:
            numbers = [d if isinstance(d, int) else -1 for d in (*own.before, -1, *own.behind)]
            made = self._operators.op("Reshape", [new, self._builder.ints(*numbers)])
            self._enter(value, made, own)
            return made
        dims = self._typings.proven.dims(value)
        assert dims is not None, "what does not fit is not flattened"
        gone = list(span.along(len(dims)))[1:]
        if not gone:
            return new
        made = self._operators.squeeze(new, gone)
        kept = tuple(d for axis, d in enumerate(dims) if axis not in gone)
        for typing in (self._typings.declared, self._typings.proven):
            typing.set(made, ValueType(typing[value].type, kept))
        return made

    def _write_end(self, node: ir.Node, value: ir.Value) -> None:
        old = node.outputs[0]
        if node.op_type == "Reshape":
            new = copy_node(node, self._values)
            new.replace_input_with(0, value)
            self._builder.nodes.append(new)
            (made,) = new.outputs
        else:
            made = self._reduced(node, value)
        self._values[old] = made
        self._typings.copy({old: made})

    def _reduced(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """Return the result of a reduction, over the one axis and those beside the span."""
        assert node.inputs[0] is not None
        span = span_of(node.inputs[0], self._typings.proven)
        assert span is not None
        over = reduced_axes(node, span)
        fewer = len(span.dims) - 1
        axes = {a if a < span.axes[0] else max(span.axes[0], a - fewer) for a in over}
        op_type = POOLS.get(node.op_type, node.op_type)
        new = self._operators.reduce(op_type, value, sorted(axes), keepdims=False)
        new.type = node.outputs[0].type
        keeps = node.op_type in POOLS or node.attributes.get_int("keepdims", True)
        return self._operators.unsqueeze(new, over) if keeps else new
