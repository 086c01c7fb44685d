"""Writes the results of a map: what becomes of all samples of a value.

| the samples are | a sequence | stacked | joined along an axis |
| --- | --- | --- | --- |
| stacked, or shared and repeated | its rows | a Transpose | a Reshape |
| packed | cut by the lengths, or flat | a Reshape, if they are alike | as it is, on its own axis |
| flat | rows and sizes, or packed | a Reshape, if they are alike | packed, along its own axis |
| the elements of a sequence | as it is | ConcatFromSequence | ConcatFromSequence |

A loop yields the first two and the last, see `passes.loops.loop`.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import onnx_ir as ir

from passes.batching.body_state import WalkOptions
from passes.batching.flat.flat_results import (
    can_give_flat,
    packed_or_stacked,
    stacked_if_alike,
    write_rows_and_sizes,
)
from passes.batching.flat.laying import packed_laid_out
from passes.batching.layouts import Batched, Layout
from passes.batching.operators import Operators
from passes.batching.packed.evening import stacked_alike
from passes.flat_views import LEAST_OPSET
from passes.graph.builder import Builder
from passes.loops.forms import SPLITTABLE, Form, LoopBody, OutputPlan, can_split, slices_of
from passes.loops.loop import write_loop
from passes.site import MapResult
from passes.typing import Typing, Typings

Dims: TypeAlias = tuple[int | str | None, ...]

__all__ = ["can_give", "is_in_place", "prepare_result", "write_batched", "write_result"]


def can_give(result: MapResult, x: Batched, options: WalkOptions) -> bool:
    """Whether a result is made of a value without taking its samples apart."""
    if x.flat is not None:
        return can_give_flat(result, x.flat) and (
            result.kind != "sequence" or x.dtype is not None or x.flat.has_one_shape
        )
    return not x.is_packed or is_in_place(result, x) or _becomes_flat(result, x, options)


def is_in_place(result: MapResult, x: Batched) -> bool:
    """Whether a result is made of packed samples without taking them apart.

    Only samples of one length stack; that they have it is checked when the model runs.
    """
    if x.beside is not None:
        return False
    if result.kind == "concatenated":
        dims = x.type.dims
        return result.axis == x.axis or (dims is not None and result.axis == x.axis - len(dims))
    if result.kind == "stacked":
        return x.type.dims is not None
    return result.kind == "sequence"


def prepare_result(result: MapResult, x: Batched, options: WalkOptions) -> None:
    """Record, where lengths and sizes are, what a result needs of them."""
    if x.lengths is not None and result.kind == "stacked":
        _ = x.lengths.longest
    if _becomes_flat(result, x, options):
        _ = x.own_lengths.count
        if x.beside is not None:
            _ = x.own_lengths.samples
    if x.flat is not None:
        x.flat.grid.prepare()


def write_batched(
    builder: Builder,
    result: MapResult,
    x: Batched,
    options: WalkOptions,
    value: ir.Value,
    typings: Typings,
    count: int | None,
) -> ir.Value:
    """Record a result of what a walk over a body has made, and return it.

    Args:
        builder: Writes the graph that the map stands in.
        result: What is wanted.
        x: The samples; `can_give` holds of them, or an error when the model runs says so.
        options: The surroundings of the walk.
        value: The output of the body.
        typings: Both typings of the model.
        count: Number of samples, if known.
    """
    ops = Operators(builder, options.opset)
    if x.flat is not None:
        ends_as_tensor = _ends_as_tensor(result, options)
        x = packed_or_stacked(ops, x, result, ends_as_tensor=ends_as_tensor)
    elif _becomes_flat(result, x, options):
        x = packed_laid_out(ops, x)
    if x.is_flat and result.kind == "sequence":
        return write_rows_and_sizes(builder, x, options.opset)
    if x.is_flat:
        x = stacked_if_alike(ops, x, _declared(result, typings))
    elif x.is_packed and result.kind == "stacked":
        stacked = stacked_alike(ops, x, _declared(result, typings))
        x = dataclasses.replace(x, layout=Layout.STACKED, value=stacked, lengths=None)
    elif x.is_shared:
        x = _repeated(ops, x, options.batch)
    x, proven = dataclasses.replace(x, type=typings.declared[value]), typings.proven.dims(value)
    return write_result(
        builder, result, x, count, proven=proven, splits_all=_has_no_sequence(options)
    )


def _declared(result: MapResult, typings: Typings) -> Dims | None:
    """Return what a stacked result declares of the dimensions of a sample."""
    dims = typings.declared.dims(result.value)
    if not dims or result.kind != "stacked":
        return None
    axis = result.axis % len(dims)
    return (*dims[:axis], *dims[axis + 1 :])


def _has_no_sequence(options: WalkOptions) -> bool:
    """Whether no sequence may be left of a result, so that none is built for onnxruntime."""
    return "SequenceInsert" in options.asked.lacks


def _ends_as_tensor(result: MapResult, options: WalkOptions) -> bool:
    """Whether a result must not be a sequence in the end, wherever one may be left of others."""
    is_yielded = options.asked.for_tensors and result.value.is_graph_output()
    return is_yielded or _has_no_sequence(options)


def _becomes_flat(result: MapResult, x: Batched, options: WalkOptions) -> bool:
    """Whether packed samples that differ along another axis than the first leave as flat ones."""
    if result.kind != "sequence" or not _ends_as_tensor(result, options) or not x.is_packed:
        return False
    if x.dtype is None or options.opset < LEAST_OPSET:
        return False
    return x.beside is not None or x.axis % x.rank > 0


def _repeated(ops: Operators, x: Batched, batch: ir.Value) -> Batched:
    """Record a shared value once for each sample."""
    shape = ops.op("Concat", [batch, ops.op("Shape", [x.value])], {"axis": 0})
    value = ops.op("Expand", [x.value, shape])
    return dataclasses.replace(x, layout=Layout.STACKED, value=value)


def write_result(
    builder: Builder,
    result: MapResult,
    x: Batched,
    count: int | None = None,
    *,
    proven: Dims | None = None,
    splits_all: bool = False,
) -> ir.Value:
    """Record a result of samples that are stacked, packed or in a sequence, and return it.

    Args:
        builder: Writes the graph of the map.
        result: What is wanted.
        x: The samples; a form that cannot give the result is never planned for it.
        count: Number of samples, if known.
        proven: What is proven of the dimensions of a sample, if anything.
        splits_all: Whether SplitToSequence may stand for every known element type, since no
            sequence is left.
    """
    rank = None if x.type.dims is None else x.rank
    match x.layout, result.kind:
        case Layout.SEQUENCE, "sequence":
            return x.value
        case Layout.SEQUENCE, _:
            return _joined(builder, result, x.value)
        case _, "sequence":
            splits = x.dtype in SPLITTABLE or (splits_all and x.dtype is not None)
            return _split(builder, x) if splits else _unsplit(builder, x, count)
        case Layout.PACKED, _:
            return x.value
        case _, "stacked" if result.axis == 0 or rank is not None:
            return _stacked(builder, x.value, result.axis, rank)
        case _, "concatenated" if rank:
            return _concatenated(builder, x.value, result.axis, rank, proven)
    # Without a rank no axis can be moved; and scalars cannot be concatenated.
    between = dataclasses.replace(result, kind="sequence")
    sequence = write_result(builder, between, x, count, splits_all=splits_all)
    return _joined(builder, result, sequence)


def _joined(builder: Builder, result: MapResult, sequence: ir.Value) -> ir.Value:
    """Stack or join the elements of a sequence."""
    attributes = {"axis": result.axis, "new_axis": int(result.kind == "stacked")}
    return builder.op("ConcatFromSequence", [sequence], attributes)


def _split(builder: Builder, x: Batched) -> ir.Value:
    """Make a sequence of stacked or packed samples of a type that SplitToSequence takes."""
    if x.lengths is None:
        return builder.op("SplitToSequence", [x.value], {"axis": 0, "keepdims": 0})
    return builder.op("SplitToSequence", [x.value, x.lengths.value], {"axis": x.axis})


def _unsplit(builder: Builder, x: Batched, count: int | None) -> ir.Value:
    """Make a sequence of stacked or packed samples of a type that SplitToSequence does not take.

    A known, small number of them are cut by Split; otherwise a Loop inserts them one by one.
    """
    if count is None or not can_split(x.dtype, count):
        return _inserted(builder, x)
    sizes = builder.ints(*[1] * count) if x.lengths is None else x.lengths.value
    axis = 0 if x.lengths is None else x.axis
    pieces = builder.node("Split", [x.value, sizes], {"axis": axis}, outputs=count).outputs
    if x.lengths is None:
        pieces = [builder.op("Squeeze", [piece, builder.ints(0)]) for piece in pieces]
    return builder.op("SequenceConstruct", pieces)


def _inserted(builder: Builder, x: Batched) -> ir.Value:
    """Make a sequence of stacked or packed samples by inserting one after the other."""
    body = LoopBody([], [x.value], [(x.value, slices_of(x))], {})
    plans = {0: OutputPlan(Form.INSERTION, x.dtype, None)}
    return write_loop(builder, body, Typings(Typing(), Typing()), plans)[0].value


def _stacked(builder: Builder, value: ir.Value, axis: int, rank: int | None) -> ir.Value:
    """Move the batch axis of ``[B, *s]`` to ``axis``; ``rank`` is that of one sample."""
    if axis == 0:
        return value
    assert rank is not None
    order = list(range(1, rank + 1))
    order.insert(axis % (rank + 1), 0)
    return builder.op("Transpose", [value], {"perm": order})


def _concatenated(
    builder: Builder, value: ir.Value, axis: int, rank: int, proven: Dims | None
) -> ir.Value:
    """Merge the batch axis of ``[B, *s]`` into axis ``axis`` of the samples.

    Two samples ``[3, 5]`` become ``[2 * 3, 5]`` along axis 0 and ``[3, 2 * 5]`` along axis 1.
    """
    if rank == 1:
        return builder.op("Reshape", [value, builder.ints(-1)])
    axis %= rank
    moved = _stacked(builder, value, axis, rank)
    beside = [dim for at, dim in enumerate(proven or ()) if at != axis and isinstance(dim, int)]
    if len(proven or ()) == rank and len(beside) == rank - 1 and 0 not in beside:
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
