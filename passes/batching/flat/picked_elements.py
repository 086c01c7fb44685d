"""Elements of one sequence that each sample picks: ``[xs[i] for i in ids]``.

Of elements with the sizes ``[[2, 3], [1, 4]]`` the samples 1, 0, 1 have the sizes ``[[1, 4],
[2, 3], [1, 4]]``, and their rows are 6-9, 0-5 and 6-9.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.flat.grid import Grid
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.flat_views import LEAST_OPSET, FlatView, read_view
from passes.graph.made import made_by, operand, operands, optional_operand
from passes.maps.tensor_source import TensorSource

__all__ = ["picked_elements"]


def picked_elements(ctx: Context, sequence: ir.Value, position: Batched) -> Output | None:
    """Return the elements at positions of samples; None where no rows and sizes are at hand.

    Args:
        ctx: The surroundings of the node.
        sequence: The sequence, one for all samples.
        position: Where each sample reads it. A position that is not there is an error.
    """
    if not position.is_stacked:
        return None
    construct = made_by(sequence, "SequenceConstruct")
    if construct is not None:
        return _of_elements(ctx, operands(construct), position)
    if ctx.opset < LEAST_OPSET:
        return None
    view = read_view(sequence)
    if view is not None:
        return None if view.is_padded else _of_view(ctx, view, position)
    node = made_by(sequence, "SplitToSequence")
    return None if node is None else _of_slices(ctx, node, position)


def _of_elements(ctx: Context, given: Sequence[ir.Value], position: Batched) -> Output | None:
    """Return elements that are given one by one, if they have one shape by proof."""
    if ctx.type_of(given[0]).dims is None:
        return None
    if not all(ctx.have_one_shape(given[0], value) for value in given):
        return None
    at = ctx.op("Reshape", [position.value, ctx.ints(-1)])
    rows = ctx.op("Concat", [ctx.unsqueeze(value, [0]) for value in given], {"axis": 0})
    return ctx.stacked(ctx.op("Gather", [rows, at], {"axis": 0}))


def _of_view(ctx: Context, view: FlatView, position: Batched) -> Output:
    at = ctx.op("Reshape", [position.value, ctx.ints(-1)])
    sizes = ctx.op("Gather", [view.sizes, at], {"axis": 0})
    whole, grid = (
        Grid.of_table(ctx.builder, table, view.lead, view.count) for table in (view.sizes, sizes)
    )
    rows = ctx.op("Gather", [view.rows, _places(ctx, whole.rows, grid.rows, at)], {"axis": 0})
    order = tuple(range(grid.rank + len(view.rest)))
    return ctx.flat(rows, FlatSamples(grid, order, (None,) * grid.rank))


def _of_slices(ctx: Context, node: ir.Node, position: Batched) -> Output | None:
    """Return slices of given lengths, or of one row each, along the first axis."""
    tensor, split = operand(node, 0), optional_operand(node, 1)
    if split is None:
        return _of_rows(ctx, node, tensor, position)
    dims = ctx.type_of(split).dims
    if node.attributes.get_int("axis", 0) != 0 or dims is None or len(dims) != 1:
        return None
    at = ctx.op("Reshape", [position.value, ctx.ints(-1)])
    sizes = TensorSource(tensor, 0, split=split).sizes(ctx.builder)
    picked = Lengths(ctx.builder, ctx.op("Gather", [sizes, at], {"axis": 0}))
    places = _places(ctx, Lengths(ctx.builder, sizes), picked, at)
    return ctx.packed(ctx.op("Gather", [tensor, places], {"axis": 0}), picked)


def _of_rows(ctx: Context, node: ir.Node, tensor: ir.Value, position: Batched) -> Output | None:
    """Return rows, each an element, along the first axis."""
    if node.attributes.get_int("axis", 0) != 0:
        return None
    at = ctx.op("Reshape", [position.value, ctx.ints(-1)])
    rows = ctx.op("Gather", [tensor, at], {"axis": 0})
    return ctx.stacked(
        ctx.unsqueeze(rows, [1]) if node.attributes.get_int("keepdims", 1) else rows
    )


def _places(ctx: Context, whole: Lengths, picked: Lengths, at: ir.Value) -> ir.Value:
    """Return the places of the picked rows among all of them."""
    first = ctx.op("Gather", [whole.starts, at], {"axis": 0})
    own = ctx.op("Gather", [first, picked.samples], {"axis": 0})
    return ctx.op("Add", [own, picked.positions])
