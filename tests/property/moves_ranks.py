"""Moves that make values whose rank no inference tells, and that work on them."""

from __future__ import annotations

import numpy as np

from tests.property.pool import Pool, Skip, Value

__all__ = ["MOVES"]


def unranked(p: Pool) -> None:
    """A value of a rank that is not known, and mostly something that is done with it."""
    made = p.choose([_squeezed, _to_chosen_sizes, _to_cut_sizes, _to_sizes_of_data])(p)
    for _ in range(p.number(0, 3)):
        if made.rank < 0:
            return
        made = p.choose(READERS)(p, made)


def _squeezed(p: Pool) -> Value:
    """A Squeeze of all axes of length 1; the model does not say which these are."""
    return p.one("Squeeze", [p.pick(fits=lambda v: v.rank >= 1 and 1 in v.dims)])


def _to_chosen_sizes(p: Pool) -> Value:
    """A Reshape to the sizes that a condition leaves."""
    x = p.pick(fits=lambda v: v.rank >= 1)
    shape = p.one("Shape", [x])
    more = p.one("Concat", [shape, p.ints(1, 1)], axis=0)
    kept = np.array([True] * x.rank + [p.chance(0.5), False])
    return p.one("Reshape", [x, p.one("Compress", [more, p.constant(kept)], axis=0)])


def _to_cut_sizes(p: Pool) -> Value:
    """A Reshape to as many sizes as something in front of it says."""
    x = p.pick(fits=lambda v: v.rank >= 1)
    count = p.pick("i", lambda v: v.dtype == np.int64 and v.rank == 0)
    nothing = p.one("Mul", [count, p.constant(0, np.int64)])
    end = p.one("Unsqueeze", [p.one("Add", [nothing, p.constant(x.rank, np.int64)]), p.ints(0)])
    more = p.one("Concat", [p.one("Shape", [x]), p.ints(1)], axis=0)
    return p.one("Reshape", [x, p.one("Slice", [more, p.ints(0), end])])


def _to_sizes_of_data(p: Pool) -> Value:
    """A Reshape to sizes that were numbers of another type."""
    x = p.pick()
    sizes = p.one("Cast", [p.one("Shape", [x])], to=1)
    kept = p.one("Where", [p.one("Less", [sizes, p.constant(0, np.float32)]), sizes, sizes])
    at = p.one("NonZero", [p.one("Add", [p.one("Abs", [kept]), p.constant(1, np.float32)])])
    found = p.one("GatherND", [p.one("Cast", [kept], to=7), p.one("Transpose", [at])])
    return p.one("Reshape", [x, found], allowzero=1)


def _reshape(p: Pool, x: Value) -> Value:
    target = p.choose([[-1], [1, -1], [-1, 1], [0, -1] if x.rank >= 1 else [-1]])
    return p.one("Reshape", [x, p.ints(*target)])


def _transpose(p: Pool, x: Value) -> Value:
    perm = [int(i) for i in p.rng.permutation(x.rank)]
    return p.one("Transpose", [x], perm=None if p.chance(0.6) or x.rank < 1 else perm)


def _squeeze(p: Pool, x: Value) -> Value:
    ones = [at for at, size in enumerate(x.dims) if size == 1]
    if not ones or p.chance(0.4):
        return p.one("Squeeze", [x])
    at = p.choose(ones)
    return p.one("Squeeze", [x, p.ints(at - x.rank if p.chance(0.5) else at)])


def _unsqueeze(p: Pool, x: Value) -> Value:
    return p.one("Unsqueeze", [x, p.ints(p.number(-x.rank - 1, x.rank))])


def _flatten(p: Pool, x: Value) -> Value:
    return p.one("Flatten", [x], axis=p.choose([None, p.number(-x.rank, x.rank)]))


def _expand(p: Pool, x: Value) -> Value:
    return p.one("Expand", [x, p.choose([p.ints(1), p.ints(2, *[1] * x.rank)])])


def _reduce(p: Pool, x: Value) -> Value:
    if x.kind not in "fi" or x.dtype == np.float16 or not x.exact:
        raise Skip
    keeps = p.choose([None, 0, 1])
    axes = [] if p.chance(0.3) or x.rank < 1 else [p.ints(p.choose([-1, 0]))]
    return p.one("ReduceSum", [x, *axes], keepdims=keeps)


def _along(p: Pool, x: Value) -> Value:
    """An operator with an axis that counts from the back or the front."""
    if x.rank < 1:
        raise Skip
    at = p.choose([0, -1, p.number(-x.rank, x.rank - 1)])
    match p.choose(["Concat", "Gather", "Slice", "ArgMax", "CumSum"]):
        case "Concat":
            return p.one("Concat", [x, x], axis=at)
        case "Gather":
            return p.one("Gather", [x, p.constant(p.choose([0, [0, -1]]), np.int64)], axis=at)
        case "Slice":
            return p.one("Slice", [x, p.ints(p.choose([0, 1])), p.ints(9), p.ints(at)])
        case "ArgMax" if x.exact and x.kind in "fi":
            return p.one("ArgMax", [x], axis=at, keepdims=p.choose([None, 0]))
        case "CumSum" if x.exact and x.kind in "fi":
            return p.one("CumSum", [x, p.constant(at, np.int64)])
    raise Skip


def _about(p: Pool, x: Value) -> Value:
    return p.one(p.choose(["Shape", "Size"]), [x])


def _arithmetic(p: Pool, x: Value) -> Value:
    other = p.pick(x.kind, lambda v: v.dtype == x.dtype)
    return p.one(p.choose(["Add", "Mul"]), [x, other])


READERS = [
    *(_reshape, _transpose, _squeeze, _unsqueeze, _flatten, _expand),
    *(_reduce, _along, _along, _about, _arithmetic, _arithmetic),
]
MOVES = [(6, unranked)]
