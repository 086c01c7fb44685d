"""The common form of two results, where each sample has one of them.

Of images ``[2, 3]`` and ``[4, 3]`` rows of 3 numbers are the common form, with the lengths 2 and
4.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.control.some_samples import as_packed, rows_and_sides
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.typing.value_types import is_number

__all__ = [
    "JointForm",
    "either",
    "joint_form",
    "lengths_along",
    "output_of_form",
    "rows_of_forms",
]


@dataclasses.dataclass(frozen=True)
class JointForm:
    """How two results are held alike: samples of one shape, or rows of samples.

    Attributes:
        empty: No rows, ``[0, *rest]``.
        sides: The dimensions in front of ``rest``: a number, lengths that both results have, or
            None. No dimension at all if the results are stacked.
    """

    empty: np.ndarray
    sides: tuple[Side | None, ...]

    @property
    def own(self) -> list[int]:
        """The axes along which each result has lengths of its own."""
        return [axis for axis, side in enumerate(self.sides) if side is None]


def joint_form(
    ctx: Context, one: Batched, other: Batched, same: Callable[[int], Lengths | None]
) -> JointForm:
    """Return how two results are held.

    Args:
        ctx: The context.
        one: A result.
        other: Another one.
        same: Returns the lengths that both have along an axis, None if each has its own.

    Raises:
        Decline: Their shapes differ in a way that no layout has, or are not known.
    """
    if not isinstance(one.type.type, ir.TensorType) or not is_number(one.dtype):
        raise Decline(Code.CONTROL_FLOW, "it yields what cannot be put in order")
    pairs = list(zip(_dims(one), _dims(other), strict=False))
    differing = [a + 1 for a, (d, e) in enumerate(pairs) if d != e or not isinstance(d, int)]
    start = max(differing, default=int(one.is_packed or other.is_packed))
    if one.rank != other.rank or (start > 1 and not ctx.takes_flat):
        raise Decline(Code.CONTROL_FLOW, "the condition and so the shape differs by sample")
    if start and ctx.opset < 16:
        raise Decline(Code.OPSET, "rows of samples that differ in length need opset 16")
    sides = [same(a) if a + 1 in differing else pairs[a][0] for a in range(start)]
    rest = [d for d in one.dims[start:] if isinstance(d, int)]
    assert one.dtype is not None
    known = (side if isinstance(side, int | Lengths) else None for side in sides)
    return JointForm(np.empty((0, *rest), one.dtype.numpy()), tuple(known))


def _dims(x: Batched) -> Sequence[int | str | None]:
    """Return the dimensions of samples, None where these may differ."""
    if x.flat is not None:
        return [None if x.flat.is_ragged(axis) else d for axis, d in enumerate(x.dims)]
    return [None if x.is_packed and axis == x.axis else d for axis, d in enumerate(x.dims)]


def lengths_along(x: Batched, axis: int) -> Lengths | None:
    """Return the lengths of samples along an axis where these are at hand, None otherwise."""
    flat = x.flat
    if flat is None:
        return x.lengths if x.axis == axis else None
    at = flat.order[axis]
    side = flat.grid.side(at) if at < flat.grid.rank and flat.tables[at] is None else None
    return side if isinstance(side, Lengths) else None


def _rows_of_form(ctx: Context, x: Batched, form: JointForm) -> tuple[ir.Value, list[ir.Value]]:
    """Return a result as a form has it, and its dimensions in front of ``rest``, ``[B]`` each."""
    if x.flat is None and len(form.sides) < 2:
        if not form.sides:
            return ctx.expanded(x), []
        rows, lengths = as_packed(ctx, x)
        return rows, [lengths]
    rows, sides = rows_and_sides(ctx, x, len(form.sides))
    return rows, [
        side.value if isinstance(side, Lengths) else ctx.op("Expand", [ctx.ints(side), ctx.batch])
        for side in sides
    ]


def rows_of_forms(
    ctx: Context, results: Sequence[Batched], forms: Sequence[JointForm]
) -> list[ir.Value]:
    """Return some results as their forms have them, and behind them the lengths of their own."""
    values, sizes = [], []
    for x, form in zip(results, forms, strict=True):
        rows, columns = _rows_of_form(ctx, x, form)
        values.append(_typed_rows(rows, form.empty))
        sizes += [_typed_rows(columns[axis], np.empty(0, np.int64)) for axis in form.own]
    return [*values, *sizes]


def _typed_rows(value: ir.Value, like: np.ndarray) -> ir.Value:
    """Write the element type, and all dimensions but the first, on a value."""
    value.type = ir.TensorType(ir.DataType.from_numpy(like.dtype))
    value.shape = ir.Shape([None, *like.shape[1:]])
    return value


def output_of_form(ctx: Context, form: JointForm, rows: ir.Value, sides: Sequence[Side]) -> Output:
    """Return rows of a form as an output, by the dimensions in front of ``rest``."""
    if not sides:
        return ctx.stacked(rows)
    if len(sides) == 1 and isinstance(sides[0], Lengths):
        return ctx.packed(rows, sides[0])
    grid = Grid.of_sides(ctx.builder, sides, ctx.batch)
    rank = len(sides) + form.empty.ndim - 1
    return ctx.flat(rows, FlatSamples(grid, tuple(range(rank)), (None,) * grid.rank))


def either(
    ctx: Context,
    condition: ir.Value,
    builders: Sequence[Builder],
    made: Sequence[Sequence[Batched]],
) -> list[Output]:
    """Record an If on one condition for all samples, whose results may be of several sizes.

    Args:
        ctx: The context.
        condition: A bool scalar.
        builders: The nodes of both branches.
        made: What they yield.
    """
    pairs = list(zip(*made, strict=True))
    forms = [joint_form(ctx, a, b, functools.partial(_shared_lengths, a, b)) for a, b in pairs]

    def write(index: int, inner: Builder) -> Sequence[ir.Value]:
        found = rows_of_forms(ctx.inside(builders[index]), made[index], forms)
        inner.nodes.extend(builders[index].nodes)
        return found

    attributes = {
        f"{name}_branch": ctx.builder.subgraph(name, [], functools.partial(write, index))
        for index, name in enumerate(("then", "else"))
    }
    count = len(forms) + sum(len(form.own) for form in forms)
    new = ctx.builder.node("If", [condition], attributes, outputs=count).outputs
    sizes = iter(new[len(forms) :])
    outputs = []
    for form, rows in zip(forms, new, strict=False):
        sides = [Lengths(ctx.builder, next(sizes)) if s is None else s for s in form.sides]
        outputs.append(output_of_form(ctx, form, rows, sides))
    return outputs


def _shared_lengths(one: Batched, other: Batched, axis: int) -> Lengths | None:
    found = lengths_along(one, axis)
    return found if found is lengths_along(other, axis) else None
