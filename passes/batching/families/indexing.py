"""Operators that read or write elements at given positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.merging import sample_numbers
from passes.batching.families.selection import chosen
from passes.batching.families.shapes import shaping
from passes.batching.layouts import Batched
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, only_number, operand, shaped
from passes.graph.picking import pick
from passes.maps.index_source import counts_up

__all__ = [
    "along_with_data",
    "compress",
    "gather",
    "gather_nd",
    "one_hot",
    "scatter_nd",
]


def gather(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Four mixes of shared and stacked.

    1. Shared positions: the axis moves up by one.
    2. Shared data: one Gather, and the batch axis of the result is brought in front.
    3. Both stacked: GatherND with a batch axis, which never reads another sample.
    """
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    axis = ctx.axis_attribute(node, data.rank, 0)
    if positions.is_shared:
        rows = _with_any_place(ctx, data, ctx.constant(positions), axis)
        return ctx.same(node, [rows, positions.value], {"axis": axis})
    if data.is_shared:
        in_turn = _rows_in_turn(ctx, data, positions) if axis == 1 else None
        if in_turn is not None:
            return [ctx.stacked(in_turn)]
        (new,) = ctx.same(node, [data.value, positions.value], {"axis": axis - 1})
        return [ctx.stacked(_to_front(ctx, new.value, axis - 1, data.rank + positions.rank))]
    rows = data.value
    if axis > 1:
        rest = [i for i in range(1, data.rank + 1) if i != axis]
        rows = ctx.op("Transpose", [rows], {"perm": [0, axis, *rest]})
    where = ctx.unsqueeze(_int64(ctx, positions), [positions.rank + 1])
    found = _gather_apart(ctx, rows, where, positions.rank)
    if axis > 1:
        # [B, *positions, *before, *after] to [B, *before, *positions, *after]
        last = positions.rank + axis
        before, middle = range(positions.rank + 1, last), range(1, positions.rank + 1)
        after = range(last, data.rank + positions.rank)
        found = ctx.op("Transpose", [found], {"perm": [0, *before, *middle, *after]})
    return [ctx.stacked(found)]


def _rows_in_turn(ctx: Context, data: Batched, positions: Batched) -> ir.Value | None:
    """Return the first rows of a tensor where sample ``k`` reads row ``k``; None where not.

    Fewer rows than samples are an error.
    """
    if data.type.dims is None or not counts_up(positions.value):
        return None
    if _counts_rows(ctx.batch, data.value):
        return data.value
    rest = [dim for dim in data.type.dims[1:] if isinstance(dim, int)]
    if len(rest) < data.rank - 1:
        return None
    rows = ctx.op("Slice", [data.value, ctx.ints(0), ctx.batch, ctx.ints(0)])
    shape = ctx.op("Concat", [ctx.batch, ctx.ints(*rest)], {"axis": 0}) if rest else ctx.batch
    return ctx.reshape(rows, shape)


def _counts_rows(number: ir.Value, tensor: ir.Value) -> bool:
    """Whether a number is the first dimension of a tensor, as a builder records it."""
    node = made_by(number, "Gather", "Shape")
    if node is None:
        return False
    if node.op_type == "Gather":
        return shaped(operand(node, 0)) is tensor and only_number(operand(node, 1)) == 0
    part = (node.attributes.get_int("start", 0), node.attributes.get_int("end", 0))
    return part == (0, 1) and operand(node, 0) is tensor


def _with_any_place(
    ctx: Context, data: Batched, known: np.ndarray[Any, Any] | None, axis: int
) -> ir.Value:
    """Return stacked samples that no position is outside of where there are no samples.

    A position that a sample does not have is an error. No samples have none to miss, but Gather
    would fail: a Reshape of ``[0, 1]`` to ``[0, 2147483648]`` lets it read what it likes.

    Args:
        ctx: The context.
        data: The samples.
        known: The positions, None where they are not known.
        axis: The axis of ``data.value`` that is read, from the front.
    """
    size = data.dims[axis - 1]
    count = constant_value(ctx.batch)
    has_samples = not ctx.may_be_empty or bool(count is not None and count.all())
    if has_samples or (known is not None and _are_within(known, size)):
        return data.value
    as_it_is = [0] * (data.rank + 1)
    wide = [_ANY_PLACE if i == axis else 0 for i in range(data.rank + 1)]
    is_some = ctx.op("Cast", [ctx.batch], {"to": ir.DataType.BOOL})
    target = ctx.op("Where", [is_some, ctx.ints(*as_it_is), ctx.ints(*wide)])
    return ctx.op("Reshape", [data.value, target])


def _are_within(positions: np.ndarray[Any, Any], size: int | str | None) -> bool:
    return isinstance(size, int) and bool(((positions >= -size) & (positions < size)).all())


_ANY_PLACE = 1 << 31
"""How many places there are where there are no samples."""


def _to_front(ctx: Context, value: ir.Value, axis: int, rank: int) -> ir.Value:
    if axis == 0:
        return value
    order = [axis, *(i for i in range(rank) if i != axis)]
    return ctx.op("Transpose", [value], {"perm": order})


def _int64(ctx: Context, x: Batched) -> ir.Value:
    if x.dtype == ir.DataType.INT64:
        return x.value
    return ctx.op("Cast", [x.value], {"to": ir.DataType.INT64})


def along_with_data(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis moves up by one; a shared operand is repeated for every sample."""
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    axis = ctx.axis_attribute(node, given[0].rank, 0)
    return ctx.same(node, [ctx.expanded(x) for x in given], {"axis": axis})


def gather_nd(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """One batch axis more, but where the data is shared and has none so far."""
    data, positions = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "indices")
    known = ctx.attribute(node, "batch_dims", 0)
    if data.is_shared and not known:
        return ctx.same(node, [data.value, positions.value])
    rows, where = ctx.expanded(data), ctx.expanded(positions)
    if ctx.opset < _BATCH_AXES:
        return [ctx.stacked(_gather_apart(ctx, rows, where, positions.rank - 1))]
    return ctx.same(node, [rows, where], {"batch_dims": known + 1})


_BATCH_AXES = 12
"""The first opset in which GatherND has batch axes."""


def _gather_apart(ctx: Context, rows: ir.Value, where: ir.Value, rank: int) -> ir.Value:
    """Record a GatherND in each sample; before opset 12 the number of the sample is an index.

    Args:
        ctx: The context.
        rows: ``[B, *s]``.
        where: Indices, int64 ``[B, *positions, k]``.
        rank: How many axes the positions of one sample have.
    """
    if ctx.opset >= _BATCH_AXES:
        return ctx.op("GatherND", [rows, where], {"batch_dims": 1})
    shape = ctx.op("Concat", [ctx.shape(where, 0, rank + 1), ctx.ints(1)], {"axis": 0})
    numbers = ctx.op("Expand", [sample_numbers(ctx, ctx.ints(1), rank + 1), shape])
    places = ctx.op("Concat", [numbers, where], {"axis": rank + 1})
    return ctx.op("GatherND", [rows, places])


def scatter_nd(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The number of the sample becomes the first coordinate of every position."""
    data, positions, updates = (ctx.operand(operands, i) for i in range(3))
    where = ctx.expanded(positions)
    rank = positions.rank
    column = ctx.op("Concat", [ctx.shape(where, 0, rank), ctx.ints(1)], {"axis": 0})
    numbers = ctx.op("Expand", [sample_numbers(ctx, ctx.ints(1), rank), column])
    full = ctx.op("Concat", [numbers, where], {"axis": rank})
    return ctx.same(node, [ctx.expanded(data), full, ctx.expanded(updates)])


def one_hot(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """The axis moves up by one. Values per sample are chosen by a mask."""
    positions, depth, values = (ctx.operand(operands, i) for i in range(3))
    shaping(depth, "depth")
    axis = ctx.attribute(node, "axis", -1)
    if positions.is_stacked and axis >= 0:
        axis += 1
    if values.is_shared:
        given = [positions.value, depth.value, values.value]
        return ctx.same(node, given, {"axis": axis})
    flags = ctx.builder.constant(np.array([0, 1], np.int64))
    numbers = [_int64(ctx, positions), _int64(ctx, depth), flags]
    (mask,) = ctx.same(node, numbers, {"axis": axis})
    hot = ctx.op("Cast", [mask.value], {"to": ir.DataType.BOOL})
    off, on = (
        ctx.op("Gather", [values.value, ctx.builder.scalar(i)], {"axis": 1}) for i in range(2)
    )
    aligned = [ctx.unsqueeze(x, range(1, positions.rank + 2)) for x in (on, off)]
    return [ctx.stacked(pick(ctx.builder, hot, aligned[0], aligned[1], values.dtype))]


def compress(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """A shared condition along one axis, or over the flattened samples."""
    data, condition = ctx.operand(operands, 0, "input"), ctx.operand(operands, 1, "condition")
    if condition.is_stacked:
        return chosen(ctx, operands, ctx.attribute(node, "axis"))
    kept = condition.value
    if ctx.attribute(node, "axis") is not None:
        axis = ctx.axis_attribute(node, data.rank)
        return ctx.same(node, [data.value, kept], {"axis": axis})
    value = ctx.unsqueeze(data.value, [1]) if data.rank == 0 else data.value
    size = ctx.op("ReduceProd", [ctx.shape(value, 1)], {"keepdims": 1})
    target = ctx.op("Concat", [ctx.shape(value, 0, 1), size], {"axis": 0})
    return ctx.same(node, [ctx.reshape(value, target), kept], {"axis": 1})
