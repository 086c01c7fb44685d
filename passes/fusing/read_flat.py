"""Flat sources of a map, and flat results: rows one behind the other, and sizes."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.flat.grid import Grid
from passes.batching.flat.reading import in_order
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.batching.operators import Operators
from passes.builder import Builder
from passes.flat_views import FlatView, write_view

__all__ = ["Flat", "Grids", "read_flat", "write_flat"]

Grids = dict[tuple[ir.Value, tuple[int, ...]], Grid]
"""Grids by the table of sizes, and the dimensions before: sources that share it lie alike."""


@dataclasses.dataclass(frozen=True)
class Flat:
    """A source whose elements lie one behind the other.

    Attributes:
        rows: ``[P, *rest]``.
        samples: How elements are read off them.
    """

    rows: ir.Value
    samples: FlatSamples


def read_flat(builder: Builder, view: FlatView, known: Grids, batch: ir.Value | None) -> Flat:
    """Record how the elements of a view are read.

    Args:
        builder: Writes the graph that the map stands in.
        view: The view.
        known: The grids that are there.
        batch: How many elements count, int64 ``[1]``; fewer are an error. None for all.
    """
    key = view.sizes, view.lead
    if key not in known:
        sizes = view.sizes
        if batch is not None:
            kept = builder.op("Slice", [sizes, builder.ints(0), batch])
            target = builder.op("Concat", [batch, builder.ints(view.count)], {"axis": 0})
            sizes = builder.op("Reshape", [kept, target], {"allowzero": 1})
        known[key] = Grid.of_table(builder, sizes, view.lead, view.count)
    grid = known[key]
    order = tuple(range(grid.rank + len(view.rest)))
    return Flat(view.rows, FlatSamples(grid, order, (None,) * grid.rank))


def write_flat(builder: Builder, x: Batched, opset: int) -> ir.Value:
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
