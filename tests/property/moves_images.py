"""Moves that work on images: sizes that differ become one size, channels, boxes."""

from __future__ import annotations

import numpy as np

from tests.property.pool import Pool, Skip

__all__ = ["MOVES"]


def crop(p: Pool) -> None:
    """CenterCropPad to one size: samples that differ in shape have one shape afterwards."""
    x = p.pick("f", lambda v: v.rank >= 1)
    if p.opset < 18:
        raise Skip
    count = p.number(1, x.rank)
    axes = [int(a) for a in p.rng.permutation(x.rank)[:count]]
    sizes = p.ints(*(p.number(1, 3) for _ in axes))
    whole = count == x.rank and axes == sorted(axes)
    p.add("CenterCropPad", [x, sizes], axes=None if whole and p.chance(0.5) else axes)


def resize(p: Pool) -> None:
    """Resize of the last axes, to given sizes or by given factors."""
    x = p.pick("f", lambda v: v.rank in (2, 3, 4) and v.dtype == np.float32)
    if p.opset < 18 or not all(s.size for s in x.samples):
        raise Skip
    mode = p.choose(["nearest", "linear"])
    if p.chance(0.7):
        axes = list(range(max(0, x.rank - 2), x.rank))
        inputs = [x, None, None, p.ints(*(p.number(1, 4) for _ in axes))]
        p.add("Resize", inputs, exact=False, axes=axes, mode=mode)
    else:
        factors = [1.0] * (x.rank - 1) + [2.0]
        p.add("Resize", [x, None, p.constant(factors, np.float32)], exact=False, mode=mode)


def group_norm(p: Pool) -> None:
    """Operators that are functions: their nodes are batched, or they have rules."""
    x = p.pick("f", lambda v: v.rank >= 3 and v.dtype == np.float32)
    size = x.dims[1]
    op = p.choose(["GroupNormalization", "MeanVarianceNormalization"])
    if op == "MeanVarianceNormalization":
        p.add(op, [x], exact=False, axes=p.choose([[0, 2], [1], [0, 1, 2]]))
        return
    if p.opset < 21 or not size:
        raise Skip
    scale, bias = (p.constant(np.arange(1, size + 1), np.float32) for _ in range(2))
    groups = p.choose([n for n in (1, 2, size) if size % n == 0])
    p.add(op, [x, scale, bias], exact=False, num_groups=groups)


def boxes(p: Pool) -> None:
    """NonMaxSuppression over a few boxes whose scores differ by sample."""
    x = p.pick("f", lambda v: v.exact and v.rank >= 1 and v.dtype == np.float32)
    scores = p.one("Reshape", [x, p.ints(1, 1, -1)])
    count = scores.dims[2]
    if not count or count > 12:
        raise Skip
    corners = p.rng.integers(0, 4, (1, count, 2))
    given = np.concatenate([corners, corners + p.rng.integers(1, 4, (1, count, 2))], axis=2)
    most, overlap = p.constant(p.number(1, 3), np.int64), p.constant(0.5, np.float32)
    inputs = [p.constant(given, np.float32), scores, most, overlap]
    found = p.one("NonMaxSuppression", inputs)
    if p.chance(0.5):
        p.add("Shape", [found])


MOVES = [(3, crop), (3, resize), (2, group_norm), (1, boxes)]
