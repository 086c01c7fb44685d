"""Finds what of a body is elementwise work on samples that differ along several axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.families.elementwise import broadcasting, elementwise
from passes.graph.graphs import constant_value, is_default_domain
from passes.graph.made import REDUCTIONS, optional_operand
from passes.typing import Typing

__all__ = ["POOLS", "Span", "elementwise_nodes", "reduced_axes", "span_of"]

_Dims = tuple[int | str | None, ...]

POOLS = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


@dataclasses.dataclass(frozen=True)
class Span:
    """The axes of a value that become one.

    Attributes:
        dims: Their dimensions.
        before: The dimensions before them.
        behind: Those behind them.
    """

    dims: _Dims
    before: _Dims
    behind: _Dims

    @property
    def axes(self) -> range:
        """The axes."""
        return range(len(self.before), len(self.before) + len(self.dims))

    def meets(self, other: Span) -> bool:
        """Whether elements of values with these spans meet when flattened as they did before."""
        return self.dims == other.dims and len(self.behind) == len(other.behind)

    def along(self, rank: int) -> range:
        """Return the axes of a value, aligned from the right, that fall on the span."""
        end = max(0, rank - len(self.behind))
        return range(max(0, end - len(self.dims)), end)


def span_of(value: ir.Value, typing: Typing) -> Span | None:
    """Return the axes from the first to the last along which samples differ, if several do.

    The sizes of the others must be numbers, which a Reshape can name.
    """
    dims = typing.dims(value) or ()
    differs = [i for i, d in enumerate(dims) if not typing.is_one_number(d)]
    if len(differs) < 2:
        return None
    first, end = differs[0], differs[-1] + 1
    span = Span(dims[first:end], dims[:first], dims[end:])
    is_named = all(isinstance(d, int) and d > 0 for d in (*span.before, *span.behind))
    return span if is_named and None not in span.dims else None


def elementwise_nodes(body: ir.Graph, typing: Typing, opset: int) -> set[ir.Node]:
    """Return the nodes that can work on flattened samples, and that only such ends read."""
    nodes = {node for node in body if _is_elementwise(node, typing, opset)}
    while leaks := {node for node in nodes if not _ends_well(node, nodes, body, typing)}:
        nodes -= leaks
    return nodes


def _is_elementwise(node: ir.Node, typing: Typing, opset: int) -> bool:
    row = table.find(node, opset)
    if not isinstance(row, table.Row) or row.rule not in (elementwise, broadcasting):
        return False
    span = span_of(node.outputs[0], typing)
    return span is not None and all(_fits(v, span, typing) for v in node.inputs if v is not None)


def _fits(value: ir.Value, span: Span, typing: Typing) -> bool:
    """Whether a value has the axes of a span, or none or only size 1 in their place."""
    own = span_of(value, typing)
    if own is not None:
        return own.meets(span)
    dims = typing.dims(value)
    return dims is not None and all(dims[axis] == 1 for axis in span.along(len(dims)))


def _ends_well(node: ir.Node, nodes: set[ir.Node], body: ir.Graph, typing: Typing) -> bool:
    (value,) = node.outputs
    users = [use.node for use in value.uses()]
    if not users or value.is_graph_output():
        return False
    return all(u in nodes or (u.graph is body and _is_end(u, value, typing)) for u in users)


def _is_end(node: ir.Node, value: ir.Value, typing: Typing) -> bool:
    """Whether a node takes flattened samples as well: a Reshape, or a reduction of all axes."""
    if not is_default_domain(node):
        return False
    if node.op_type == "Reshape":
        target = constant_value(node.inputs[1])
        return target is not None and 0 not in target
    span = span_of(value, typing)
    return span is not None and set(span.axes) <= set(reduced_axes(node, span))


def reduced_axes(node: ir.Node, span: Span) -> Sequence[int]:
    """Return the axes that a node reduces, none if it reduces nothing or nothing tells."""
    rank = len(span.before) + len(span.dims) + len(span.behind)
    if node.op_type in POOLS:
        return range(2, rank)
    if node.op_type not in REDUCTIONS:
        return ()
    axes = list(node.attributes.get_ints("axes", ()))
    if optional_operand(node, 1) is not None:
        known = constant_value(node.inputs[1])
        if known is None:
            return ()
        axes = [int(axis) for axis in known.reshape(-1)]
    if not axes and node.attributes.get_int("noop_with_empty_axes", False):
        return ()
    return sorted(axis % rank for axis in axes) or range(rank)
