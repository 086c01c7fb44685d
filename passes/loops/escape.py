"""From what a map holds of an output to the values that the rest of the graph reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.loops.loop import Form, Held, LoopBody, OutputPlan, write_loop
from passes.maps.tensor_source import TensorSource
from passes.site import MapResult
from passes.typing import Typing, Typings

__all__ = ["SPLITTABLE", "can_split", "concatenated", "escape", "stacked"]

SPLITTABLE = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.BOOL,
        ir.DataType.STRING,
    }
)
"""Element types for which onnxruntime has SplitToSequence."""

_MOST_PIECES = 64


def can_split(dtype: ir.DataType | None, count: int | None) -> bool:
    """Whether a tensor is cut into a sequence without insertion.

    Args:
        dtype: Its element type, if known.
        count: Number of elements of the sequence, if known.
    """
    return dtype in SPLITTABLE or (count is not None and 0 < count <= _MOST_PIECES)


def escape(
    builder: Builder,
    result: MapResult,
    held: Held,
    rank: int | None,
    dtype: ir.DataType | None,
    count: int | None = None,
    *,
    dims: Sequence[int | str | None] | None = None,
    splits_all: bool = False,
) -> ir.Value:
    """Record how a result is read from what a map holds, and return it.

    Args:
        builder: Writes the graph of the map.
        result: What is wanted.
        held: What there is; a form that cannot give the result is never planned for it.
        rank: Rank of a sample, if known.
        dtype: Element type of a sample, if known.
        count: Number of samples, if known.
        dims: What is proven of the dimensions of a sample, if anything.
        splits_all: Whether SplitToSequence may stand for every known element type, since no
            sequence is left.
    """
    is_splittable = dtype in SPLITTABLE or (splits_all and dtype is not None)
    match held.form, result.kind:
        case Form.INSERTION, "sequence":
            return held.value
        case Form.INSERTION, kind:
            attributes = {"axis": result.axis, "new_axis": int(kind == "stacked")}
            return builder.op("ConcatFromSequence", [held.value], attributes)
        case Form.BLOCKS, "sequence" if not (is_splittable or can_split(dtype, count)):
            rows = TensorSource(held.value, held.axis, split=held.lengths, is_whole=True)
            return _inserted(builder, rows, dtype)
        case Form.BLOCKS, "sequence" if not is_splittable:
            assert count is not None
            cut = builder.node(
                "Split", [held.value, held.lengths], {"axis": held.axis}, outputs=count
            )
            return builder.op("SequenceConstruct", cut.outputs)
        case Form.BLOCKS, "sequence":
            return builder.op("SplitToSequence", [held.value, held.lengths], {"axis": held.axis})
        case Form.BLOCKS, _:
            return held.value
        case _, "sequence" if not is_splittable:
            return _unstacked(builder, held.value, dtype, count)
        case _, "sequence":
            return builder.op("SplitToSequence", [held.value], {"axis": 0, "keepdims": 0})
        case _, "stacked" if result.axis == 0 or rank is not None:
            return stacked(builder, held.value, result.axis, rank)
        case _, "concatenated" if rank:
            return concatenated(builder, held.value, result.axis, rank, dims)
    # Without a rank no axis can be moved; and scalars cannot be concatenated.
    between = dataclasses.replace(result, kind="sequence")
    sequence = escape(builder, between, held, rank, dtype, count, splits_all=splits_all)
    attributes = {"axis": result.axis, "new_axis": int(result.kind == "stacked")}
    return builder.op("ConcatFromSequence", [sequence], attributes)


def stacked(builder: Builder, value: ir.Value, axis: int, rank: int | None) -> ir.Value:
    """Move the batch axis of ``[B, *s]`` to ``axis`` of the result.

    Args:
        builder: Writes the graph.
        value: The stacked tensor.
        axis: Where the batch axis belongs; negative counts from the back of the result.
        rank: Rank of a sample; may be None if ``axis`` is 0.
    """
    if axis == 0:
        return value
    assert rank is not None
    order = list(range(1, rank + 1))
    order.insert(axis % (rank + 1), 0)
    return builder.op("Transpose", [value], {"perm": order})


def concatenated(
    builder: Builder,
    value: ir.Value,
    axis: int,
    rank: int,
    dims: Sequence[int | str | None] | None = None,
) -> ir.Value:
    """Merge the batch axis of ``[B, *s]`` into axis ``axis`` of the samples.

    Args:
        builder: Writes the graph.
        value: The stacked tensor.
        axis: The axis of a sample; negative counts from its back.
        rank: Rank of a sample, at least 1.
        dims: What is proven of the dimensions of a sample, if anything.
    """
    if rank == 1:
        return builder.op("Reshape", [value, builder.ints(-1)])
    axis %= rank
    moved = stacked(builder, value, axis, rank)
    beside = [dim for at, dim in enumerate(dims or ()) if at != axis and isinstance(dim, int)]
    if len(beside) == rank - 1 and 0 not in beside:
        return builder.op("Reshape", [moved, builder.ints(*beside[:axis], -1, *beside[axis:])])
    shape = builder.op("Shape", [moved])
    bounds = [(0, axis), (axis, axis + 2), (axis + 2, rank + 1)]
    parts = [
        builder.op("Slice", [shape, builder.ints(start), builder.ints(end)])
        for start, end in bounds
        if start < end
    ]
    merged = int(axis > 0)
    parts[merged] = builder.op("ReduceProd", [parts[merged]], {"keepdims": 1})
    target = builder.op("Concat", parts, {"axis": 0})
    return builder.op("Reshape", [moved, target], {"allowzero": 1})


def _unstacked(
    builder: Builder, value: ir.Value, dtype: ir.DataType | None, count: int | None
) -> ir.Value:
    """Make a sequence of the rows of ``[B, *s]`` where SplitToSequence cannot.

    A known, small number of rows are cut by Split; otherwise a Loop inserts them one by one.
    """
    if count is not None and can_split(dtype, count):
        sizes = builder.ints(*[1] * count)
        pieces = builder.node("Split", [value, sizes], {"axis": 0}, outputs=count).outputs
        rows = [builder.op("Squeeze", [piece, builder.ints(0)]) for piece in pieces]
        return builder.op("SequenceConstruct", rows)
    return _inserted(builder, TensorSource.of_stacked(value), dtype)


def _inserted(builder: Builder, source: TensorSource, dtype: ir.DataType | None) -> ir.Value:
    """Make a sequence of slices of a tensor by inserting one after the other."""
    value = source.tensor
    body = LoopBody([], [value], [(value, source)], {})
    plans = {0: OutputPlan(Form.INSERTION, dtype, None)}
    return write_loop(builder, body, Typings(Typing(), Typing()), plans)[0].value
