"""The boundary form of padded samples: one row for each, cut by a SequenceMap to its size.

``padded [B, *lead, H, W, *rest]`` holds each element with anything behind it, up to the size of
the largest, and ``sizes [B, k]`` their dimensions along the axes that may differ. A sequence of
them is, in ONNX's own operators,

    pieces = SplitToSequence(padded, keepdims = 0)
    tables = SplitToSequence(sizes, keepdims = 0)
    images = SequenceMap(pieces, tables) { Slice(piece, zeros, size, axes) }
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import made_by

__all__ = ["read_padded", "rows_of_table", "write_padded"]

_INT64 = ir.DataType.INT64


def write_padded(builder: Builder, padded: ir.Value, sizes: ir.Value, span: range) -> ir.Value:
    """Record the sequence of the elements of a padded tensor and return it.

    Args:
        builder: Writes the graph.
        padded: ``[B, *s]``, an input of the graph.
        sizes: int64 ``[B, k]``.
        span: The ``k`` axes of an element that the sizes tell.
    """
    assert padded.dtype is not None
    pieces = builder.op("SplitToSequence", [padded], {"axis": 0, "keepdims": 0})
    tables = builder.op("SplitToSequence", [sizes], {"axis": 0, "keepdims": 0})
    piece = ir.Value(name="piece", type=ir.TensorType(padded.dtype))
    size = ir.Value(name="size", type=ir.TensorType(_INT64), shape=ir.Shape([len(span)]))

    def write(inner: Builder) -> list[ir.Value]:
        zeros, axes = inner.ints(*(0 for _ in span)), inner.ints(*span)
        element = inner.op("Slice", [piece, zeros, size, axes])
        element.type = piece.type
        return [element]

    body = builder.subgraph("element", [piece, size], write)
    sequence = builder.op("SequenceMap", [pieces, tables], {"body": body})
    sequence.type = ir.SequenceType(ir.TensorType(padded.dtype))
    return sequence


def read_padded(sequence: ir.Value) -> tuple[ir.Value, ir.Value, range] | None:
    """Return the padded tensor, the sizes and their axes that `write_padded` was given.

    None for all else. The tensor is an input of a graph, so that its declared shape holds.
    """
    node = made_by(sequence, "SequenceMap")
    if node is None or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    padded, sizes = (rows_of_table(value) for value in node.inputs)
    body = node.attributes["body"].as_graph()
    cut = made_by(body.outputs[0], "Slice")
    if padded is None or sizes is None or cut is None or len(cut.inputs) != 4:
        return None
    starts, axes = constant_value(cut.inputs[1]), constant_value(cut.inputs[3])
    is_cut = cut.inputs[0] is body.inputs[0] and cut.inputs[2] is body.inputs[1]
    if not is_cut or starts is None or axes is None or starts.any() or not axes.size:
        return None
    span = range(int(axes[0]), int(axes[0]) + len(axes))
    if list(axes) != list(span) or span.start < 0 or not _has_shape(padded, sizes, span):
        return None
    return padded, sizes, span


def _has_shape(padded: ir.Value, sizes: ir.Value, span: range) -> bool:
    """Whether a tensor has known numbers beside the axes that its sizes tell."""
    if not padded.is_graph_input() or padded.shape is None or sizes.shape is None:
        return False
    dims = list(padded.shape)[1:]
    beside = [*dims[: span.start], *dims[span.stop :]]
    has_sizes = sizes.shape.rank() == 2 and sizes.shape[1] == len(span)
    return has_sizes and span.stop <= len(dims) and all(isinstance(dim, int) for dim in beside)


def rows_of_table(sequence: ir.Value | None) -> ir.Value | None:
    """Return the tensor that is cut into the rows of a sequence, None if there is none."""
    node = made_by(sequence, "SplitToSequence")
    if node is None or len(node.inputs) > 1 or node.attributes.get_int("axis", 0) != 0:
        return None
    return None if node.attributes.get_int("keepdims", 1) else node.inputs[0]
