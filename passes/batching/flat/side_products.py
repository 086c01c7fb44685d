"""Products of the dimensions of samples: numbers, and sizes of each sample.

``[H, W, 3]`` holds ``H * W * 3`` numbers; without the dimensions ``[H, W]`` 3 of it is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.grid import Side
from passes.batching.lengths import Lengths, multiplied
from passes.numbers.integers import Linear

__all__ = ["as_one", "cancelled", "numbers_of", "product"]


def product(ctx: Context, sides: Sequence[Side]) -> ir.Value:
    """Return the product of dimensions, int64 ``[B]``, or ``[1]`` where all are numbers."""
    total: ir.Value | None = None
    for side in sides:
        if isinstance(side, Lengths):
            total = side.value if total is None else ctx.op("Mul", [total, side.value])
    number = math.prod(side for side in sides if isinstance(side, int))
    if total is None:
        return ctx.ints(number)
    return total if number == 1 else ctx.op("Mul", [total, ctx.ints(number)])


def as_one(ctx: Context, sides: Sequence[Side]) -> Side:
    """Return the product of dimensions as one."""
    lengths = [side for side in sides if isinstance(side, Lengths)]
    number = math.prod(side for side in sides if isinstance(side, int))
    if not lengths:
        return number
    if len(lengths) == 1 and number:
        return lengths[0].times(number)
    parts = tuple(_factors(sides))
    sizes = (side.size if isinstance(side, Lengths) else Linear(side) for side in parts)
    return ctx.lengths_by((Linear(), *sizes), lambda: _multiplied(ctx, parts))


def _multiplied(ctx: Context, parts: Sequence[Side]) -> Lengths:
    lengths = [side for side in parts if isinstance(side, Lengths)]
    return multiplied(ctx.builder, lengths).times(
        math.prod(side for side in parts if isinstance(side, int))
    )


def _factors(sides: Sequence[Side]) -> list[Side]:
    """Return dimensions by those whose product they are."""
    return [one for side in sides for one in ([side] if isinstance(side, int) else side.factors)]


def cancelled(sides: Sequence[Side], others: Sequence[Side]) -> tuple[list[Lengths], int] | None:
    """Return what is left of dimensions without others, None where nothing tells it."""
    sides, others = _factors(sides), _factors(others)
    left = [side for side in sides if isinstance(side, Lengths)]
    for other in others:
        if isinstance(other, Lengths):
            same = next((one for one in left if one.equal(other)), None)
            if same is None:
                return None
            left.remove(same)
    number, by = (math.prod(s for s in x if isinstance(s, int)) for x in (sides, others))
    return (left, number // by) if by and not number % by else None


def numbers_of(sides: Sequence[Side]) -> tuple[int | None, ...]:
    """Return the dimensions that are one number for all samples, None for all others."""
    return tuple(side if isinstance(side, int) else None for side in sides)
