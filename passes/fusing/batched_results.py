"""Writes the results of a map: what becomes of one tensor of all samples.

| the samples are | a sequence | stacked | joined along an axis |
| --- | --- | --- | --- |
| stacked, or shared and repeated | its rows | a Transpose | a Reshape |
| packed | cut by the lengths, or flat | a Reshape, if they are alike | as it is, on its own axis |
| flat | rows and sizes, or packed | a Reshape, if they are alike | packed, along its own axis |
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.body_state import WalkOptions
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.reading import as_packed, as_stacked, flat_alike, in_order
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.operators import Operators
from passes.batching.packed.evening import stacked_alike
from passes.flat_views import LEAST_OPSET, FlatView, write_view
from passes.graph.builder import Builder
from passes.loops.escape import escape
from passes.loops.forms import Form, Held
from passes.site import MapResult

__all__ = ["can_give", "is_in_place", "prepare_result", "write_result"]


def write_result(
    builder: Builder,
    result: MapResult,
    x: Batched,
    options: WalkOptions,
    rank: int | None,
    dtype: ir.DataType | None,
    count: int | None,
) -> ir.Value:
    """Record a result of samples that are held in one tensor, and return it.

    Args:
        builder: Writes the graph that the map stands in.
        result: What is wanted.
        x: The samples; `can_give` holds of them, or an error when the model runs says so.
        options: The surroundings of the walk.
        rank: Rank of a sample, if known.
        dtype: Element type of a sample, if known.
        count: Number of samples, if known.
    """
    ops = Operators(builder, options.opset)
    ends_as_tensor = _ends_as_tensor(options)
    if x.flat is not None:
        x = _of_flat(ops, x, result, ends_as_tensor=ends_as_tensor)
    elif _becomes_flat(result, x, options):
        x = packed_laid_out(ops, x)
    if x.is_flat and result.kind == "sequence":
        return _write_flat(builder, x, options.opset)
    whole = _whole(ops, x, result, options.batch)
    dims = None if x.is_flat else x.type.dims
    return escape(builder, result, whole, rank, dtype, count, dims=dims, splits_all=ends_as_tensor)


def prepare_result(result: MapResult, x: Batched, options: WalkOptions) -> None:
    """Record, where lengths and sizes are, what a result needs of them.

    Args:
        result: What is wanted.
        x: The samples.
        options: The surroundings of the walk.
    """
    if x.lengths is not None and result.kind == "stacked":
        _ = x.lengths.longest
    if _becomes_flat(result, x, options):
        assert x.lengths is not None
        _ = x.lengths.count
        if x.beside is not None:
            _ = x.lengths.samples
    if x.flat is not None:
        x.flat.grid.prepare()


def _ends_as_tensor(options: WalkOptions) -> bool:
    """Whether no sequence may be left of a result, so that none is built for onnxruntime."""
    return "SequenceInsert" in options.asked.lacks


def _becomes_flat(result: MapResult, x: Batched, options: WalkOptions) -> bool:
    """Whether packed samples that differ along another axis than the first leave as flat ones."""
    if result.kind != "sequence" or not _ends_as_tensor(options) or not x.is_packed:
        return False
    if x.dtype is None or options.opset < LEAST_OPSET:
        return False
    return x.beside is not None or x.axis % x.rank > 0


def _of_flat(ops: Operators, x: Batched, result: MapResult, *, ends_as_tensor: bool) -> Batched:
    """Return flat samples of one shape stacked, and such as leave as packed ones so.

    A sequence that differs along another axis than the first could not become a tensor.
    """
    assert x.flat is not None
    if x.flat.has_one_shape:
        value = as_stacked(ops, x)
        return dataclasses.replace(x, layout=Layout.STACKED, value=value, flat=None)
    axis = x.flat.ragged_axis
    if result.kind == "concatenated":
        leaves_packed = result.axis % len(x.flat.order) == axis
    else:
        leaves_packed = result.kind == "sequence" and not (axis and ends_as_tensor)
    return as_packed(ops, x) if axis is not None and leaves_packed else x


def _whole(ops: Operators, x: Batched, result: MapResult, batch: ir.Value) -> Held:
    """Return a result of all samples as one tensor."""
    if x.is_flat:
        return Held(Form.SCAN_OUTPUT, flat_alike(ops, x))
    if x.lengths is not None and result.kind == "stacked":
        return Held(Form.SCAN_OUTPUT, stacked_alike(ops, x))
    if x.lengths is not None:
        return Held(Form.BLOCKS, x.value, x.lengths.value, x.axis)
    if x.is_stacked:
        return Held(Form.SCAN_OUTPUT, x.value)
    shape = ops.op("Concat", [batch, ops.op("Shape", [x.value])], {"axis": 0})
    return Held(Form.SCAN_OUTPUT, ops.op("Expand", [x.value, shape]))


def can_give(result: MapResult, x: Batched, options: WalkOptions) -> bool:
    """Whether a result is made of a value without taking its samples apart.

    Args:
        result: What is wanted.
        x: The samples.
        options: The surroundings of the walk.
    """
    if x.flat is not None:
        if x.flat.has_one_shape:
            return True
        if result.kind == "stacked":
            return True  # that they are alike is checked when the model runs
        if result.kind == "concatenated":
            return _can_join(result, x.flat)
        return result.kind == "sequence" and x.dtype is not None
    return not x.is_packed or is_in_place(result, x) or _becomes_flat(result, x, options)


def _can_join(result: MapResult, flat: FlatSamples) -> bool:
    """Whether flat samples are joined along the one axis along which they differ, or beside all.

    That they are alike where they have to be is checked when the model runs.
    """
    axis = result.axis % len(flat.order)
    return not flat.is_ragged(axis) or flat.ragged_axis == axis


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


def _write_flat(builder: Builder, x: Batched, opset: int) -> ir.Value:
    """Record the sequence of flat samples of several shapes and return it."""
    builder.opset = opset
    ops = Operators(builder, opset)
    rows, samples = in_order(ops, x)
    grid = samples.grid
    behind = grid.rank
    first = next(at for at, dim in enumerate(grid.dims) if isinstance(dim, ir.Value))
    columns = [ops.unsqueeze(grid.column(at), [1]) for at in range(first, behind)]
    sizes = columns[0] if len(columns) == 1 else ops.op("Concat", columns, {"axis": 1})
    sizes.type, sizes.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([None, behind - first])
    lead = tuple(dim for dim in grid.dims[:first] if isinstance(dim, int))
    rest = tuple(dim for dim in x.dims[behind:] if isinstance(dim, int))
    view = FlatView(rows, sizes, lead, rest, behind - first)
    assert x.dtype is not None
    return write_view(builder, view, x.dtype)
