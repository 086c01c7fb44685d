"""Moves that work on integers: bits, products, quantities found at run time."""

from __future__ import annotations

import numpy as np

from tests.property.pool import Pool, Skip, Value

__all__ = ["MOVES"]


def bits(p: Pool) -> None:
    x = p.pick("iu", lambda v: v.dtype in (np.int32, np.int64, np.uint8))
    if p.opset < 18:
        raise Skip
    if p.chance(0.2):
        p.add("BitwiseNot", [x])
        return
    other = p.constant(p.number(1, 7), x.dtype)
    p.add(p.choose(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, other])


def _quantized(p: Pool, x: Value) -> Value:
    small = p.one("Clip", [x, p.constant(0, x.dtype), p.constant(9, x.dtype)])
    return p.one("Cast", [small], to=2)


def integer_product(p: Pool) -> None:
    """MatMulInteger of a sample, with zero points or without."""
    x = p.pick("f", lambda v: v.exact and v.rank >= 2 and v.dtype == np.float32)
    size = x.dims[-1]
    if not size:
        raise Skip
    a = _quantized(p, x)
    b = p.constant(p.rng.integers(0, 5, (size, 2)), np.uint8)
    points = [p.constant(1, np.uint8), p.constant(2, np.uint8)][: p.number(0, 2)]
    p.add("MatMulInteger", [a, b, *points])


def quantize_by_range(p: Pool) -> None:
    """DynamicQuantizeLinear: scale and zero point are found for each sample."""
    x = p.pick("f", lambda v: v.exact and v.dtype == np.float32 and all(s.size for s in v.samples))
    code, scale, point = p.add("DynamicQuantizeLinear", [x], outputs=3)
    if p.chance(0.6):
        p.add("DequantizeLinear", [code, scale, point], exact=False)


def determinant(p: Pool) -> None:
    x = p.pick("f", lambda v: v.rank >= 2 and v.dtype == np.float32)
    if x.dims[-1] is None or x.dims[-1] != x.dims[-2]:
        raise Skip
    p.add("Det", [x], exact=False)


MOVES = [(2, bits), (2, integer_product), (1, quantize_by_range), (1, determinant)]
