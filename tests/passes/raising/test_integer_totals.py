"""Carried sums and products of integers, of which onnxruntime's reductions lose digits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.expansion import operators
from tests.passes.loops import prove

pytestmark = pytest.mark.quick
TEXT = """g ({dtype}[N,2] x, {dtype}[2] z, bool[N] p) => ({dtype}[2] y)
  <bool go = {{1}}, int64 zero = {{0}}, {dtype} one = {{1}}, {dtype} none = {{0}}> {{
  shape = Shape (x)  n = Gather (shape, zero)
  y = Loop (n, go, z) <body = b (int64 i, bool c, {dtype}[2] s) => (bool d, {dtype}[2] s2) {{
    d = Identity (c)  q = Gather (x, i)  f = Gather (p, i)
    {nodes} }}> }}"""
TOTALS = {
    "sum": "s2 = Add (s, q)",
    "difference": "s2 = Sub (s, q)",
    "sum under a condition": "t = Add (s, q)  s2 = Where (f, t, s)",
    "product": "s2 = Mul (s, q)",
}
LARGE = (2**60 + 1, 2**53 + 1, 2**31 - 1, -(2**62), 3)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", TOTALS)
def test_totals_hold_every_digit(name: str, dtype: str) -> None:
    large = np.array([[n, n + 2] for n in LARGE]).astype(dtype)
    feeds = [
        {"x": large[:n], "z": np.array([5, 7], dtype), "p": np.arange(n) % 2 == 0}
        for n in (0, 1, 2, 5)
    ]
    prove(TEXT.format(dtype=dtype, nodes=TOTALS[name]), *feeds, opset=18)


COUNTS = {
    "flags": "g = Cast <to = 7> (f)  s2 = Add (s, g)",
    "ones under a condition": "g = Where (f, one, none)  s2 = Add (s, g)",
    "sizes": "g = Size (q)  s2 = Add (s, g)",
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_summed_by_one_node(name: str) -> None:
    text = TEXT.format(dtype="int64", nodes=COUNTS[name])
    numbers = np.arange(6).reshape(3, 2)
    feeds = {"x": numbers, "z": numbers[0], "p": np.array([True, False, True])}
    found = prove(text, feeds, opset=18)
    assert not operators(found.model)["CumSum"]
