"""Reads elements that differ along several axes, where rows and sizes are at hand."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.batching.flat.axis_table import identity
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.operators import Operators
from passes.flat_views import FlatView
from passes.graph.builder import Builder
from passes.typing.value_types import UNKNOWN

__all__ = ["FlatSources"]


class FlatSources:
    """The views that a map reads; those that lie alike share what is known of their sizes."""

    def __init__(self, builder: Builder, opset: int) -> None:
        """Set up the reader.

        Args:
            builder: Writes the graph that the map stands in.
            opset: Version of ONNX's operators.
        """
        self._ops = Operators(builder, opset)
        self._known: dict[tuple[ir.Value, tuple[int, ...]], FlatSamples] = {}

    def read(self, view: FlatView, batch: ir.Value | None) -> Batched:
        """Record how the elements of a view are read.

        Args:
            view: The view.
            batch: How many elements count, int64 ``[1]``; fewer are an error. None for all.
        """
        rows = self._cut(view.rows, batch) if view.is_padded else view.rows
        # Padded elements lie alike only in one tensor: another may have another size of rows.
        key = view.rows if view.is_padded else view.sizes, view.lead
        if key not in self._known:
            sizes = self._cut(view.sizes, batch)
            read = self._padded_grid(view, rows, sizes) if view.is_padded else None
            self._known[key] = read or _as_they_are(
                Grid.of_table(self._ops.builder, sizes, view.lead, view.count), view
            )
        if view.is_padded:
            rows = self._as_rows(rows, 1 + len(view.lead) + view.count)
        elif batch is not None:
            total = self._known[key].grid.rows.total
            rows = self._ops.op("Slice", [rows, self._ops.ints(0), total, self._ops.ints(0)])
        return Batched(Layout.FLAT, rows, UNKNOWN, flat=self._known[key])

    def _padded_grid(self, view: FlatView, padded: ir.Value, sizes: ir.Value) -> FlatSamples:
        """Return how elements are read that are all cut to their own size."""
        ops, first = self._ops, len(view.lead)
        own = Grid.of_table(ops.builder, sizes, view.lead, view.count)
        room = [
            ops.op("Expand", [ops.shape(padded, at + 1, at + 2), own.count])
            for at in range(first, first + view.count)
        ]
        empty = ops.op("Equal", [own.rows.value, ops.builder.scalar(0)])
        grid = Grid(ops.builder, [*view.lead, *room], count=own.count, empty=empty)
        sides = [own.lengths(at) for at in range(first, own.rank)]
        cut = [dataclasses.replace(identity(ops, s.value), size=s.size) for s in sides]
        tables = (*(None for _ in view.lead), *cut)
        return FlatSamples(grid, tuple(range(grid.rank + len(view.rest))), tables)

    def _as_rows(self, padded: ir.Value, behind: int) -> ir.Value:
        """Return a tensor with its first axes as one."""
        total = self._ops.op("ReduceProd", [self._ops.shape(padded, 0, behind)], {"keepdims": 1})
        rest = self._ops.shape(padded, behind)
        return self._ops.reshape(padded, self._ops.op("Concat", [total, rest], {"axis": 0}))

    def _cut(self, table: ir.Value, batch: ir.Value | None) -> ir.Value:
        """Return the first rows of a tensor; fewer rows are an error."""
        if batch is None:
            return table
        ops = self._ops
        kept = ops.op("Slice", [table, ops.ints(0), batch, ops.ints(0)])
        target = ops.op("Concat", [batch, ops.shape(table, 1)], {"axis": 0})
        return ops.reshape(kept, target)


def _as_they_are(grid: Grid, view: FlatView) -> FlatSamples:
    order = tuple(range(grid.rank + len(view.rest)))
    return FlatSamples(grid, order, (None,) * grid.rank)
