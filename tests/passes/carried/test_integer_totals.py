"""Carried sums and products of integers, of which onnxruntime's reductions lose digits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, prove, read, same

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
    "sum of products": "g = Mul (q, one)  s2 = Add (s, g)",
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


IN_FLOATS = """g (bool[N] p, int64[1] z) => (int32[1] y)
  <bool go = {{1}}, int64 zero = {{0}}, int32[1] none = {{0}}, int32[1] far = {{16777216}},
   float[1] unit = {{1}}, float[1] two = {{2}}, float one = {{1}}, float half = {{0.5}}> {{
  shape = Shape (p)  n = Gather (shape, zero)  given = Cast <to = 6> (z)
  y = Loop (n, go, {first}) <body = b (int64 i, bool c, int32[1] s) => (bool d, int32[1] s2) {{
    d = Identity (c)  f = Gather (p, i)
    s2 = If (f) <
      then_branch = a () => (int32[1] more) {{
        x = Cast <to = {to}> (s)  m = Mul (x, {by})  t = {join}  more = Cast <to = 6> (t) }},
      else_branch = b () => (int32[1] same) {{ same = Identity (s) }}> }}> }}"""
PLAIN = {"first": "none", "to": 1, "by": "unit", "join": "Add (m, one)"}


def counted(**other: object) -> str:
    """Return a Loop that counts as PaddlePaddle does, with something else in it."""
    return IN_FLOATS.format(**PLAIN | other)


def flags(count: int) -> dict[str, np.ndarray]:
    return {"p": np.random.default_rng(count).random(count) < 0.5, "z": np.array([3])}


@pytest.mark.parametrize("join", ["Add (m, one)", "Sub (m, one)"])
def test_what_is_counted_in_floats_is_a_sum(join: str) -> None:
    """PaddlePaddle writes ``c = c + 1`` as ``int(float(c) * 1.0 + 1.0)``."""
    found = prove(counted(join=join), *map(flags, LENGTHS), opset=18)
    said = [one for decision in found.decisions for one in decision.assumptions]
    assert any("2^24" in one for one in said)


NEAR = {
    "a number that is given": counted(first="given"),
    "a number that a float rounds": counted(first="far"),
    "doubled": counted(by="two"),
    "halves, which are cut off": counted(join="Add (m, half)"),
}


@pytest.mark.parametrize("name", NEAR)
def test_other_numbers_in_floats_stay_in_a_loop(name: str) -> None:
    before = model(NEAR[name], 18)
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes
    assert same(before, found.model, *map(flags, LENGTHS)) == len(LENGTHS)
