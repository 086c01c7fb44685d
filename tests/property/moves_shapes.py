"""Moves that work on shapes and positions."""

from __future__ import annotations

import numpy as np

from tests.property.moves_numbers import axis
from tests.property.pool import Array, Pool, Skip, Value

__all__ = ["MOVES"]

LAST = np.iinfo(np.int64).max


def transpose(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    perm = [int(i) for i in p.rng.permutation(x.rank)]
    p.add("Transpose", [x], perm=None if p.chance(0.4) else perm)


def reshape(p: Pool) -> None:
    x = p.pick()
    target: list[int] = [-1]
    if x.rank >= 1 and p.chance(0.7):
        kept = p.number(1, x.rank)
        target = [0] * kept + ([-1] if kept < x.rank or p.chance(0.3) else [])
        if p.chance(0.3) and None not in x.dims:
            target = [int(n or 0) for n in x.dims[::-1]]
    elif p.chance(0.5):
        target = p.choose([[1, -1], [-1, 1], [2, -1], [-1, 2]])
    p.add("Reshape", [x, p.ints(*target)], allowzero=1 if p.chance(0.1) else None)


def axes_moves(p: Pool) -> None:
    x = p.pick()
    if p.chance(0.5):
        at = p.number(-x.rank - 1, x.rank)
        p.add(
            "Unsqueeze",
            [x, p.ints(at, *([0] if at not in (0, -x.rank - 2) and p.chance(0.2) else []))],
        )
        return
    ones = [i for i, n in enumerate(x.dims) if n == 1]
    if not ones:
        raise Skip
    at = p.choose(ones)
    p.add("Squeeze", [x] if p.chance(0.3) else [x, p.ints(at - x.rank if p.chance(0.5) else at)])


def flatten(p: Pool) -> None:
    x = p.pick()
    p.add("Flatten", [x], axis=p.choose([None, p.number(-x.rank, x.rank)]))


def expand(p: Pool) -> None:
    x = p.pick()
    if p.chance(0.5):
        target = [2] * p.number(0, 1) + [1 if n != 1 else p.number(1, 3) for n in x.dims]
        p.add("Expand", [x, p.ints(*target)])
    else:
        like = p.pick(fits=lambda v: v.rank >= x.rank)
        p.add("Expand", [x, p.one("Shape", [like])])


def tile(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    p.add("Tile", [x, p.ints(*(p.number(1, 2) for _ in range(x.rank)))])


def concat(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    at = axis(p, x)

    def fits(v: Value) -> bool:
        return (
            v.dtype == x.dtype
            and v.rank == x.rank
            and all(
                _without(s, at) == _without(t, at)
                for s, t in zip(v.samples, x.samples, strict=True)
            )
        )

    others = [p.pick(x.kind, fits) for _ in range(p.number(1, 2))]
    p.add("Concat", [*others, x] if p.chance(0.5) else [x, *others], axis=at)


def _without(array: Array, at: int) -> tuple[int, ...]:
    shape = list(array.shape)
    del shape[at]
    return tuple(shape)


def split(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    at = axis(p, x)
    size = x.dims[at]
    if p.opset >= 18 and p.chance(0.5):
        p.add("Split", [x], outputs=2, axis=at, num_outputs=2)
    elif size is not None and size >= 1:
        first = p.number(0, size)
        p.add("Split", [x, p.ints(first, size - first)], outputs=2, axis=at)
    else:
        p.add("Split", [x], outputs=2, axis=at)


def cut(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    at = axis(p, x)
    start, end, step = p.choose([(0, 1, 1), (1, LAST, 1), (-2, LAST, 1), (0, -1, 1), (0, LAST, 2)])
    if p.chance(0.25):
        start, end, step = -1, -LAST, -1
    inputs = [x, p.ints(start), p.ints(end)]
    if at % x.rank or step != 1 or p.chance(0.5):
        inputs += [p.ints(at), p.ints(step)]
    p.add("Slice", inputs)


def cut_by_value(p: Pool) -> None:
    """A Slice whose bounds differ from sample to sample, or come from a shared input."""
    x = p.pick(fits=lambda v: v.rank >= 1)
    bound = p.pick("i", lambda v: v.rank == 0 or v.dims == (1,))
    if bound.rank == 0:
        bound = p.one("Unsqueeze", [bound, p.ints(0)])
    p.add("Slice", [x, p.ints(0), bound, p.ints(axis(p, x))])


def pad(p: Pool) -> None:
    x = p.pick("f")
    pads = [p.number(0, 1) for _ in range(2 * x.rank)]
    mode = p.choose([None, "reflect", "edge"])
    inputs = [x, p.ints(*pads)]
    if mode is None and p.chance(0.5):
        inputs.append(p.constant(2, x.dtype))
    p.add("Pad", inputs, mode=mode)


def shape_arithmetic(p: Pool) -> None:
    """What exporters write: Shape, Gather, Mul, Concat, Reshape."""
    x = p.pick(fits=lambda v: v.rank >= 2)
    shape = p.one("Shape", [x])
    rows = p.one("Gather", [shape, p.constant(0, np.int64)], axis=0)
    kind = p.number(0, 4)
    if kind == 0:
        rest = p.one("Slice", [shape, p.ints(1), p.ints(LAST), p.ints(0)])
        product = p.one("ReduceProd", [rest], keepdims=1)
        head = p.one("Unsqueeze", [rows, p.ints(0)])
        p.add("Reshape", [x, p.one("Concat", [head, product], axis=0)])
    elif kind == 1:
        zeros = p.one("ConstantOfShape", [shape])
        p.add("Add", [zeros, p.one("Cast", [x], to=1)] if x.exact else [zeros, zeros])
    elif kind == 2:
        p.add("Range", [p.constant(0, np.int64), rows, p.constant(1, np.int64)])
    elif kind == 3:
        number = p.one("Cast", [p.one("Size", [x])], to=1)
        p.add("Div", [p.pick("f", lambda v: v.dtype == np.float32), number], exact=False)
    else:
        cols = p.one("Shape", [x], start=-1)
        p.add("Reshape", [x, p.one("Concat", [p.ints(-1), cols], axis=0)])


def gather(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    try:
        where = p.pick("i", lambda v: v.dtype in (np.int64, np.int32))
        if p.chance(0.3):
            raise Skip
    except Skip:
        where = p.constant(p.rng.integers(-1, 1, p.choose([(), (2,), (1, 2)])), np.int64)
    p.add("Gather", [x, where], axis=p.choose([None, axis(p, x)]))


def gather_elements(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1 and None not in v.dims)
    where = p.constant(p.rng.integers(0, 1, [int(n or 0) for n in x.dims]), np.int64)
    if p.chance(0.6) and x.exact and x.kind in "fi":
        zero = p.one("Mul", [x, p.constant(0, x.dtype)])
        one = p.one("Greater", [x, p.constant(0, x.dtype)])
        where = p.one("Cast", [p.choose([zero, one])], to=7)
    at = axis(p, x)
    if p.chance(0.5):
        p.add("GatherElements", [x, where], axis=at)
    else:
        kind = p.choose([None, "add", "max"] if p.opset >= 18 else [None, "add"])
        p.add("ScatterElements", [x, where, x], axis=at, reduction=kind)


def gather_nd(p: Pool) -> None:
    x = p.pick(fits=lambda v: v.rank >= 1)
    try:
        where = p.pick("i", lambda v: v.dtype == np.int64 and v.rank >= 1)
    except Skip:
        where = p.constant(np.zeros((p.number(1, 2), p.number(1, x.rank))), np.int64)
    if p.chance(0.5):
        p.add("GatherND", [x, where], batch_dims=p.choose([None, None, 1]))
    else:
        updates = p.one("GatherND", [x, where])
        if updates.kind in "fi":
            updates = p.one("Neg", [updates])
        p.add("ScatterND", [x, where, updates])


def one_hot(p: Pool) -> None:
    x = p.pick("i")
    values = p.constant(np.array([0, 1]), np.float32)
    p.add("OneHot", [x, p.constant(4, np.int64), values], axis=p.choose([None, -1, 0]))


def triangle(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.rank >= 2)
    if p.chance(0.3):
        p.add("EyeLike", [p.pick("f", lambda v: v.rank == 2)])
    else:
        k = [p.constant(p.number(-1, 1), np.int64)] if p.chance(0.5) else []
        p.add("Trilu", [x, *k], upper=p.choose([None, 0, 1]))


def blocks(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank == 4)
    op = p.choose(["DepthToSpace", "SpaceToDepth", "Resize"])
    if op == "Resize":
        p.add(op, [x, None, p.constant([1, 1, 2, 2], np.float32)], exact=False, mode="nearest")
    else:
        p.add(op, [x], blocksize=2)


def reverse(p: Pool) -> None:
    x = p.pick("fi", lambda v: v.rank >= 2)
    if x.dims[1] is None or not x.dims[1]:
        raise Skip
    lengths = p.constant(np.ones(x.dims[1]), np.int64)
    p.add("ReverseSequence", [x, lengths], batch_axis=1, time_axis=0)


def positions(p: Pool) -> None:
    """Where elements are not zero, and often what is read there."""
    x = p.pick("fib", lambda v: v.exact)
    found = p.one("NonZero", [x])
    then = p.number(0, 4)
    if then == 0:
        p.add("ReduceSum", [found, p.ints(1)], keepdims=0)
    elif then == 1:
        p.add("GatherND", [x, p.one("Transpose", [found])])
    elif then == 2 and x.rank == 1:
        where = p.one("Squeeze", [found, p.ints(0)])
        p.add("Gather", [p.pick(fits=lambda v: v.rank >= 1), where])
    elif then == 3:
        p.add("Gather", [found, p.constant(p.number(-x.rank, x.rank - 1), np.int64)], axis=0)


def kept(p: Pool) -> None:
    """Elements or rows under a condition, and often a sum of them."""
    x = p.pick("fib", lambda v: v.exact)
    if x.rank >= 1 and p.chance(0.5):
        at = axis(p, x)
        numbers = x if x.kind in "fi" else p.one("Cast", [x], to=1)
        others = [i for i in range(x.rank) if i != at % x.rank]
        flags = p.one("ReduceMax", [numbers, p.ints(*others)], keepdims=0) if others else numbers
        p.add("Compress", [x, p.one("Cast", [flags], to=9)], axis=at)
        return
    flat = p.one("Reshape", [x, p.ints(-1)])
    found = p.one("Compress", [x, p.one("Cast", [flat], to=9)])
    if p.chance(0.6) and found.kind != "b":
        p.add("ReduceSum", [found], keepdims=p.choose([0, 1]))


def distinct(p: Pool) -> None:
    """Different elements or rows, and often how many."""
    x = p.pick("fib", lambda v: v.exact)
    if x.kind != "i" or x.dtype != np.int64:
        x = p.one("Cast", [x], to=7) if p.chance(0.7) else x
    along = axis(p, x) if x.rank >= 1 and p.chance(0.4) else None
    if along is not None and any(sample.size == 0 for sample in x.samples):
        raise Skip  # onnxruntime ends the process
    number = p.number(1, 4)
    found, *_ = p.add("Unique", [x], outputs=number, axis=along, sorted=p.choose([None, 0, 1]))
    if p.chance(0.4):
        p.add("Shape", [found])


MOVES = [
    (4, transpose),
    (4, reshape),
    (4, axes_moves),
    (2, flatten),
    (2, expand),
    (2, tile),
    (4, concat),
    (3, split),
    (4, cut),
    (2, cut_by_value),
    (3, pad),
    (4, shape_arithmetic),
    (4, gather),
    (3, gather_elements),
    (2, gather_nd),
    (2, one_hot),
    (1, triangle),
    (1, blocks),
    (1, reverse),
    (2, positions),
    (2, kept),
    (2, distinct),
]
