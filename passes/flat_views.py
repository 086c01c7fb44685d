"""The boundary form of flat samples: rows and sizes that a SequenceMap reshapes to elements.

``rows [P, *rest]`` hold the elements one behind the other, row-major, and ``sizes [B, k]`` their
dimensions along the axes that may differ. A sequence of them is, in ONNX's own operators,

    areas  = ReduceProd(sizes) * lead                        [B]
    pieces = SplitToSequence(rows, areas)
    tables = SplitToSequence(sizes, keepdims = 0)
    images = SequenceMap(pieces, tables) { Reshape(piece, Concat(lead, size, rest)) }

A model that says it in these operators is read alike, whoever wrote it. Elements that are padded
to the largest (`passes.padded_views`) are a view, too.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, optional_operand
from passes.padded_views import read_padded, rows_of_table

__all__ = ["ENDS", "LEAST_OPSET", "FlatView", "read_view", "span_of", "write_view"]

LEAST_OPSET = 14
"""The first opset whose Reshape takes a 0 for a dimension of 0."""

ENDS = ("Reshape", "Slice")
"""The body of a SequenceMap that is a view ends in one of these operators."""

_INT64 = ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class FlatView:
    """Elements of different sizes that lie one behind the other.

    Attributes:
        rows: ``[P, *rest]``; padded ``[B, *lead, H, W, *rest]``.
        sizes: Their dimensions along the axes that may differ, int64 ``[B, k]``.
        lead: The dimensions before these axes, the same for all elements.
        rest: Those behind them.
        count: How many axes may differ, ``k``.
        is_padded: Whether each element has a row of its own, as large as the largest.
    """

    rows: ir.Value
    sizes: ir.Value
    lead: tuple[int, ...]
    rest: tuple[int, ...]
    count: int
    is_padded: bool = False

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The dimensions of an element, None for each that may differ."""
        return (*self.lead, *(None for _ in range(self.count)), *self.rest)


def span_of(dims: tuple[int | str | None, ...]) -> tuple[int, int] | None:
    """Return the first axis that may differ, and the one behind the last; None if none may."""
    ragged = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    return (ragged[0], ragged[-1] + 1) if ragged else None


def write_view(builder: Builder, view: FlatView, dtype: ir.DataType) -> ir.Value:
    """Record the sequence of the elements of a view and return it.

    Args:
        builder: Writes a graph of opset `LEAST_OPSET` or newer.
        view: The elements.
        dtype: Their type.
    """
    assert builder.opset is not None and builder.opset >= LEAST_OPSET
    areas = builder.op("ReduceProd", [view.sizes, builder.ints(1)], {"keepdims": 0})
    if (times := math.prod(view.lead)) != 1:
        areas = builder.op("Mul", [areas, builder.ints(times)])
    pieces = builder.op("SplitToSequence", [view.rows, areas], {"axis": 0})
    tables = builder.op("SplitToSequence", [view.sizes], {"axis": 0, "keepdims": 0})
    piece = ir.Value(name="rows", type=ir.TensorType(dtype))
    size = ir.Value(name="size", type=ir.TensorType(_INT64), shape=ir.Shape([view.count]))

    def write(inner: Builder) -> list[ir.Value]:
        parts = [size]
        if view.lead:
            parts.insert(0, inner.ints(*view.lead))
        if view.rest:
            parts.append(inner.ints(*view.rest))
        target = inner.op("Concat", parts, {"axis": 0})
        element = inner.op("Reshape", [piece, target], {"allowzero": 1})
        element.type = ir.TensorType(dtype)
        return [element]

    body = builder.subgraph("element", [piece, size], write)
    sequence = builder.op("SequenceMap", [pieces, tables], {"body": body})
    sequence.type = ir.SequenceType(ir.TensorType(dtype))
    return sequence


def read_view(sequence: ir.Value) -> FlatView | None:
    """Return the rows and sizes that a sequence is a view of, None if it is none."""
    padded = read_padded(sequence)
    if padded is not None:
        return _of_padded(*padded)
    node = made_by(sequence, "SequenceMap")
    if node is None or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    rows = _rows(node.inputs[0])
    sizes = rows_of_table(node.inputs[1])
    body = node.attributes["body"].as_graph()
    shape = made_by(body.outputs[0], "Reshape")
    if rows is None or sizes is None or shape is None or shape.inputs[0] is not body.inputs[0]:
        return None
    parts = _parts(shape.inputs[1], body.inputs[1])
    if parts is None or not shape.attributes.get_int("allowzero", 0):
        return None
    lead, rest = parts
    count = _width(sizes)
    if count is None or not _are_areas(node.inputs[0], sizes, lead):
        return None
    return FlatView(rows, sizes, lead, rest, count)


def _of_padded(padded: ir.Value, sizes: ir.Value, span: range) -> FlatView:
    dims = [dim if isinstance(dim, int) else 0 for dim in padded.shape or ()][1:]
    lead, rest = tuple(dims[: span.start]), tuple(dims[span.stop :])
    return FlatView(padded, sizes, lead, rest, len(span), is_padded=True)


def _rows(sequence: ir.Value | None) -> ir.Value | None:
    """Return the tensor that is cut along its first axis by given sizes."""
    node = made_by(sequence, "SplitToSequence")
    if node is None or len(node.inputs) < 2 or node.attributes.get_int("axis", 0) != 0:
        return None
    return node.inputs[0]


def _parts(
    target: ir.Value | None, size: ir.Value
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the constants before and behind the sizes in the target of a Reshape."""
    if target is size:
        return (), ()
    node = made_by(target, "Concat")
    if node is None or list(node.inputs).count(size) != 1:
        return None
    at = list(node.inputs).index(size)
    found = []
    for part in (node.inputs[:at], node.inputs[at + 1 :]):
        arrays = [constant_value(value) for value in part]
        if any(array is None or (array < 0).any() for array in arrays):
            return None
        numbers = [int(n) for array in arrays if array is not None for n in array]
        found.append(tuple(numbers))
    return found[0], found[1]


def _width(sizes: ir.Value) -> int | None:
    dims = None if sizes.shape is None else sizes.shape.dims
    width = None if dims is None or len(dims) != 2 else dims[1]
    return width if isinstance(width, int) else None


def _are_areas(pieces: ir.Value | None, sizes: ir.Value, lead: tuple[int, ...]) -> bool:
    """Whether the rows are cut by the products of the sizes."""
    split = made_by(pieces, "SplitToSequence")
    assert split is not None
    node = made_by(split.inputs[1], "Mul")
    areas = split.inputs[1]
    if node is not None:
        factor = constant_value(node.inputs[1])
        if factor is None or factor.size != 1 or int(factor.reshape(())) != math.prod(lead):
            return False
        areas = node.inputs[0]
    elif math.prod(lead) != 1:
        return False
    product = made_by(areas, "ReduceProd")
    if product is None or product.inputs[0] is not sizes:
        return False
    axes = list(product.attributes.get_ints("axes", ()))
    if optional_operand(product, 1) is not None:
        known = constant_value(product.inputs[1])
        axes = [] if known is None else [int(n) for n in np.ravel(known)]
    return axes in ([1], [-1]) and not product.attributes.get_int("keepdims", 1)
