"""What becomes of flat samples that leave a map: other layouts, or rows and sizes.

Images of ``[2, 3]`` and ``[1, 4]`` numbers are ten rows, and leave as those with the sizes
``[[2, 3], [1, 4]]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.flat.reading import as_packed, as_stacked, flat_alike, in_order
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.operators import Operators
from passes.flat_views import FlatView, write_view
from passes.graph.builder import Builder
from passes.site import MapResult

__all__ = ["can_give_flat", "packed_or_stacked", "stacked_if_alike", "write_rows_and_sizes"]


def can_give_flat(result: MapResult, flat: FlatSamples) -> bool:
    """Whether a result is made of flat samples without taking them apart.

    That they are alike where they have to be is checked when the model runs.
    """
    if flat.has_one_shape or result.kind != "concatenated":
        return True
    axis = result.axis % len(flat.order)
    return not flat.is_ragged(axis) or flat.ragged_axis == axis


def packed_or_stacked(
    ops: Operators, x: Batched, result: MapResult, *, ends_as_tensor: bool
) -> Batched:
    """Return flat samples of one shape stacked, and such as leave as packed ones so.

    A sequence that differs along another axis than the first could not become a tensor.
    """
    if x.own_flat.has_one_shape:
        value = as_stacked(ops, x)
        return dataclasses.replace(x, layout=Layout.STACKED, value=value, flat=None)
    axis = x.own_flat.ragged_axis
    if result.kind == "concatenated":
        leaves_packed = result.axis % len(x.own_flat.order) == axis
    else:
        leaves_packed = result.kind == "sequence" and not (axis and ends_as_tensor)
    return as_packed(ops, x) if axis is not None and leaves_packed else x


def stacked_if_alike(
    ops: Operators, x: Batched, dims: Sequence[int | str | None] | None
) -> Batched:
    """Record flat samples as rows of one tensor, an error where they differ in shape."""
    value = flat_alike(ops, x, dims)
    return dataclasses.replace(x, layout=Layout.STACKED, value=value, flat=None)


def write_rows_and_sizes(builder: Builder, x: Batched, opset: int) -> ir.Value:
    """Record the sequence of flat samples of several shapes and return it."""
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
