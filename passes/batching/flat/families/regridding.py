"""Reshape and Flatten of flat samples: no element moves, and all lie on another grid.

``[h, w, 3]`` has its elements in the order in which ``[h * w, 3]`` has them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.grid import Grid, Side
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.moves import entry, restacked
from passes.batching.flat.reading import as_packed, in_order
from passes.batching.flat.samples import FlatSamples
from passes.batching.flat.side_products import as_one, cancelled, numbers_of, product
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear
from passes.typing import ValueType

__all__ = ["flatten", "in_a_line", "regridded", "reshape", "reshape_to_several"]

_OPEN = -1
"""The dimension that takes what the others leave."""


@dataclasses.dataclass(frozen=True)
class _ElementsInOrder:
    """The elements of samples in their order.

    Attributes:
        rows: ``[P, *rest]``.
        grid: The grid of the rows.
        sides: The dimensions of a sample, those of ``rest`` included.
        area: The number of elements of each sample, int64 ``[B]``.
    """

    rows: ir.Value
    grid: Grid
    sides: tuple[Side, ...]
    area: ir.Value


def reshape(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """To constant dimensions, or to such as are computed for each sample."""
    x, target = ctx.operand(operands, 0, "data"), ctx.operand(operands, 1, "shape")
    if x.flat is None or not target.has_an_axis:
        raise Decline(Code.BATCHED_OPERAND, "its shape comes from samples of several sizes")
    if x.flat.has_one_shape and target.is_shared:
        return restacked(ctx, node, operands)
    found = _elements(ctx, x)
    return [_on_sides(ctx, found, _wanted(ctx, node, target, found))]


def reshape_to_several(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """Reshape packed samples to such as differ along several axes."""
    x = packed_laid_out(ctx, ctx.operand(operands, 0, "data"))
    return reshape(ctx, node, [x, *operands[1:]])


def flatten(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Both groups of axes become one."""
    x = ctx.operand(operands, 0, "input")
    found = _elements(ctx, x)
    axis = int(ctx.attribute(node, "axis", 1))
    axis += len(found.sides) if axis < 0 else 0
    before = as_one(ctx, found.sides[:axis])
    return [_on_sides(ctx, found, [before, as_one(ctx, found.sides[axis:])])]


def regridded(
    ctx: Context, x: Batched, change: Callable[[Sequence[Side]], Sequence[Side]]
) -> Batched:
    """Return flat samples with other dimensions, which follow from those that they have."""
    found = _elements(ctx, x)
    sides = change(found.sides)
    made = _on_sides(ctx, found, sides)
    type_ = ValueType(x.type.type, numbers_of(sides))
    return dataclasses.replace(x, layout=made.layout, value=made.value, type=type_, flat=made.flat)


def in_a_line(ctx: Context, x: Batched) -> Batched:
    """Return the elements of samples that differ along several axes as packed ones of rank 1."""
    return as_packed(ctx, regridded(ctx, x, lambda sides: [as_one(ctx, sides)]))


def _elements(ctx: Context, x: Batched) -> _ElementsInOrder:
    rows, flat = in_order(ctx, x)
    behind = range(flat.grid.rank, len(flat.order))
    rest = [d for axis in behind if isinstance(d := x.dims[axis], int)]
    area = flat.grid.rows.value
    if math.prod(rest) != 1:
        area = ctx.op("Mul", [area, ctx.ints(math.prod(rest))])
    sides = (*(flat.grid.side(at) for at in range(flat.grid.rank)), *rest)
    return _ElementsInOrder(rows, flat.grid, sides, area)


def _wanted(ctx: Context, node: ir.Node, target: Batched, found: _ElementsInOrder) -> list[Side]:
    """Return the dimensions that are asked for; one of them may be open."""
    numbers = ctx.numbers.of(node.inputs[1])
    if numbers is None:
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells how many axes it asks for")
    keeps_zero = bool(ctx.attribute(node, "allowzero", 0))
    wanted: list[Side] = []
    for i, number in enumerate(numbers):
        if number.number is None:
            wanted.append(_computed(ctx, target, i, numbers, found, keeps_zero=keeps_zero))
        elif number.number or keeps_zero:
            wanted.append(number.number)
        elif i < len(found.sides):
            wanted.append(found.sides[i])
        else:
            raise Decline(Code.NO_RULE, "it copies an axis that is not there")
    return wanted


def _computed(
    ctx: Context,
    target: Batched,
    position: int,
    numbers: Sequence[Linear],
    found: _ElementsInOrder,
    *,
    keeps_zero: bool,
) -> Lengths:
    """Return a dimension of each sample that is known when the model runs.

    What is a sum or a product of sizes, or a size of the samples, is 0 only where there is no
    element. Of any other number nothing tells that it is none with a meaning: -1, and 0 where
    that copies.
    """
    builder, number = ctx.builder, numbers[position]
    sizes = [side.size for side in found.sides if isinstance(side, Lengths)]
    if number in sizes or ctx.numbers.is_of_sizes(number):
        return ctx.lengths_by(
            number, lambda: Lengths(builder, _column(ctx, target, position, found), size=number)
        )
    own = _asked(ctx, target, position, found, keeps_zero=keeps_zero)
    left = found.area
    for other in range(len(numbers)):
        if other != position:
            by = ctx.op("Abs", [_asked(ctx, target, other, found, keeps_zero=keeps_zero)])
            left = ctx.op("Div", [left, ctx.op("Max", [by, ctx.ints(1)])])
    own = ctx.op("Where", [ctx.op("Less", [own, ctx.ints(0)]), left, own])
    return Lengths(builder, own)


def _asked(
    ctx: Context, target: Batched, position: int, found: _ElementsInOrder, *, keeps_zero: bool
) -> ir.Value:
    """Return the dimension that is asked for at a position; 0 may copy that of each sample."""
    own = _column(ctx, target, position, found)
    if keeps_zero or position >= len(found.sides):
        return own
    copied = _value(ctx, found.sides[position])
    return ctx.op("Where", [ctx.op("Equal", [own, ctx.ints(0)]), copied, own])


def _column(ctx: Context, target: Batched, position: int, found: _ElementsInOrder) -> ir.Value:
    value = entry(ctx, target, position)
    return ctx.op("Expand", [value, found.grid.count]) if target.is_shared else value


def _value(ctx: Context, side: Side) -> ir.Value:
    return ctx.ints(side) if isinstance(side, int) else side.value


def _on_sides(ctx: Context, found: _ElementsInOrder, wanted: Sequence[Side]) -> Output:
    """Return the elements as samples of other dimensions."""
    is_open = [isinstance(side, int) and side == _OPEN for side in wanted]
    if sum(is_open) > 1 or any(isinstance(s, int) and s < _OPEN for s in wanted):
        raise Decline(Code.NO_RULE, "no shape has such dimensions")
    others = [side for side, o in zip(wanted, is_open, strict=True) if not o]
    rest = cancelled(found.sides, others)
    sides = list(wanted)
    if any(is_open):
        sides[is_open.index(True)] = _left(ctx, found, others, rest)
    is_proven = rest == ([], 1) or (any(is_open) and rest is not None)
    area = found.area if is_proven else _checked(ctx, found, sides)
    return _laid(ctx, found, sides, area)


def _left(
    ctx: Context,
    found: _ElementsInOrder,
    others: Sequence[Side],
    rest: tuple[list[Lengths], int] | None,
) -> Side:
    """Return the dimension that takes what others leave."""
    if rest is not None:
        return as_one(ctx, [*rest[0], rest[1]])
    by = product(ctx, others)
    left = ctx.op("Div", [found.area, ctx.op("Max", [by, ctx.ints(1)])])
    return Lengths(ctx.builder, left)


def _checked(ctx: Context, found: _ElementsInOrder, sides: Sequence[Side]) -> ir.Value:
    """Return the number of elements of each sample; it is an error if another is asked for."""
    differs = ctx.op("Not", [ctx.op("Equal", [found.area, product(ctx, sides)])])
    return failing_where(ctx, found.area, [differs])


def _with_rows(
    ctx: Context, found: _ElementsInOrder, rest: Sequence[int], area: ir.Value
) -> ir.Value:
    """Return the elements with rows of some dimensions; their number may be an error."""
    if area is found.area and all(rest):
        return ctx.op("Reshape", [found.rows, ctx.ints(-1, *rest)])
    total = ctx.op("ReduceSum", [area], {"keepdims": 1})
    if math.prod(rest) != 1:
        total = ctx.op("Div", [total, ctx.ints(max(math.prod(rest), 1))])
    target = ctx.op("Concat", [total, ctx.ints(*rest)], {"axis": 0}) if rest else total
    return ctx.reshape(found.rows, target)


def _laid(ctx: Context, found: _ElementsInOrder, sides: Sequence[Side], area: ir.Value) -> Output:
    ragged = [axis for axis, side in enumerate(sides) if isinstance(side, Lengths)]
    behind = ragged[-1] + 1 if ragged else 0
    rest = [side for side in sides[behind:] if isinstance(side, int)]
    if not ragged:
        target = ctx.op("Concat", [ctx.op("Shape", [area]), ctx.ints(*rest)], {"axis": 0})
        return ctx.stacked(ctx.reshape(found.rows, target))
    rows = found.rows
    if area is not found.area or list(found.sides[found.grid.rank :]) != rest:
        rows = _with_rows(ctx, found, rest, area)
    grid = found.grid.derived(
        ("sides", ctx.builder, *sides[:behind]),
        lambda: Grid.of_sides(ctx.builder, sides[:behind], found.grid.count),
    )
    order = tuple(range(len(sides)))
    made = ctx.flat(rows, FlatSamples(grid, order, (None,) * grid.rank))
    return dataclasses.replace(made, type=ValueType(made.type.type, numbers_of(sides)))
