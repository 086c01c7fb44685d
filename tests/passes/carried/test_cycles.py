"""Counters that a loop carries and that begin anew where they reach a number."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop
from tests.passes.loops import Read, model, read, rows, same

pytestmark = pytest.mark.quick

PREPARE = """two = Constant <value = int64 {2}> ()
        three = Constant <value = int64 {3}> ()
        four = Constant <value = int64 {4}> ()
        minus = Constant <value = int64 {-1}> ()
        told = ReduceMax <keepdims = 0> (c)"""
NEXT = "u = Add (s, one)"
ANEW = {
    "a remainder": ("zero", f"{NEXT}  s2 = Mod (u, four)"),
    "a remainder from another number": ("three", f"{NEXT}  s2 = Mod (u, four)"),
    "a remainder in steps of two": ("one", "u = Add (s, two)  s2 = Mod (u, three)"),
    "a remainder that counts down": ("one", "u = Sub (s, one)  s2 = Mod (u, three)"),
    "where it is equal": ("zero", f"{NEXT}  l = Equal (u, four)  s2 = Where (l, zero, u)"),
    "where it is larger": ("zero", f"{NEXT}  l = Greater (u, three)  s2 = Where (l, zero, u)"),
    "where it is not less": (
        "two",
        f"{NEXT}  l = GreaterOrEqual (u, four)  s2 = Where (l, zero, u)",
    ),
    "while it is less": ("zero", f"{NEXT}  l = Less (u, four)  s2 = Where (l, u, zero)"),
    "while it is at most": (
        "zero",
        f"{NEXT}  l = LessOrEqual (u, three)  s2 = Where (l, u, zero)",
    ),
    "while it was less": ("zero", f"{NEXT}  l = Less (s, three)  s2 = Where (l, u, zero)"),
    "in a branch": (
        "zero",
        f"""{NEXT}  l = Less (u, three)  s2 = If (l) <
            then_branch = yes () => (int64 a) {{ a = Identity (u) }},
            else_branch = no () => (int64 b0) {{ b0 = Constant <value = int64 {{0}}> () }}>""",
    ),
}
OTHER = {
    "begins at its end": ("four", f"{NEXT}  s2 = Mod (u, four)"),
    "begins below": ("minus", f"{NEXT}  s2 = Mod (u, four)"),
    "begins anywhere": ("told", f"{NEXT}  s2 = Mod (u, four)"),
    "keeps the sign": ("one", "u = Sub (s, two)  s2 = Mod <fmod = 1> (u, three)"),
    "ends where it is told": ("zero", f"{NEXT}  s2 = Mod (u, told)"),
    "counts down to what is told": ("zero", "u = Sub (s, told)  s2 = Mod (u, four)"),
    "is taken from a number": ("zero", "u = Sub (three, s)  s2 = Mod (u, four)"),
    "grows by what is told": ("zero", "u = Add (s, told)  s2 = Mod (u, four)"),
    "begins anew at one": ("one", f"{NEXT}  l = Less (u, four)  s2 = Where (l, u, one)"),
    "begins behind its limit": ("four", f"{NEXT}  l = Less (u, three)  s2 = Where (l, u, zero)"),
    "stays in one branch": ("zero", f"{NEXT}  l = Less (u, three)  s2 = Where (l, u, s)"),
    "never begins anew": ("zero", f"{NEXT}  l = Less (u, three)  s2 = Where (l, u, u)"),
    "always begins anew": ("zero", "l = Less (s, three)  s2 = Where (l, zero, zero)"),
    "where it is less": ("zero", f"{NEXT}  l = Less (u, three)  s2 = Where (l, zero, u)"),
    "while it is larger": ("zero", f"{NEXT}  l = Greater (u, three)  s2 = Where (l, u, zero)"),
    "a limit that is told": ("zero", f"{NEXT}  l = Less (u, told)  s2 = Where (l, u, zero)"),
    "another number decides": (
        "zero",
        f"{NEXT}  k0 = Gather <axis = 0> (ke, zero)  l = Less (k0, three)  s2 = Where (l, u, zero)",
    ),
    "twice as far decides": (
        "zero",
        f"{NEXT}  v = Add (s, two)  l = Less (v, three)  s2 = Where (l, u, zero)",
    ),
}


def judged(begin: str, body: str, dialect: str) -> Read:
    """Return a loop whose counter is collected, behind the pass, once both give the same."""
    text = loop(
        dialect,
        "int64",
        f"{body}  y = Identity (s)",
        begin,
        collected="int64",
        prepare=PREPARE,
    )
    before = model(text, 18)
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) >= len(LENGTHS) - 1
    return found


def notes(found: Read) -> list[str]:
    said = [note for one in found.decisions for note in one.notes]
    return [note for note in said if note.startswith("counter that begins anew")]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ANEW)
def test_a_counter_that_begins_anew(name: str, dialect: str) -> None:
    found = judged(*ANEW[name], dialect)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert notes(found) == ["counter that begins anew 's'"]


@pytest.mark.parametrize("name", OTHER)
def test_another_counter(name: str) -> None:
    assert not notes(judged(*OTHER[name], "counted"))


RING = """g (float[N,4] x, int64 k, float[R,4] b) => (float[R,4] r, float[N,4] ys) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r, ys = Loop (n, t, b) <body = step (int64 i, bool on, float[R,4] s)
            => (bool on2, float[R,4] s2, float[4] y) {{
        on2 = Identity (on)
        e = Gather <axis = 0> (x, i)
        h = Shape (s)
        size = {size}
        d = Mod (i, size)
        y = Gather <axis = 0> (s, d)
        at = Unsqueeze (d, zero1)
        s2 = ScatterND (s, at, e)
    }}>
}}"""


@pytest.mark.parametrize("size", ["Gather <axis = 0> (h, zero)", "Identity (k)", "Neg (k)"])
def test_a_ring_whose_size_may_be_negative(size: str) -> None:
    """Modulo -3 the places are 0, -2, -1, counted from the end: no ring from the first row on."""
    before = model(RING.format(size=size))
    found = read(before)
    assert found.loops == 0
    b = rows(4, 4, seed=1)
    many = [{"x": rows(n, 4), "k": np.array(k), "b": b} for n in (0, 1, 3, 10) for k in (3, -3)]
    assert same(before, found.model, *many) == len(many)
