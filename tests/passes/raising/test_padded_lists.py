"""Lists that begin with elements, and gain rows of any length that are padded to one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, prove, read, same

PAD = "left = Sub (six, size)  pads = Concat <axis = 0> (o, o, left, o)  v = Pad (d, pads, fill)"
FRONT = "left = Sub (six, size)  pads = Concat <axis = 0> (left, o, o, o)  v = Pad (d, pads, fill)"
JOINED = """left = Sub (six, size)  dims = Concat <axis = 0> (left, four)
            rest = ConstantOfShape <value = float[1] {-1}> (dims)
            v = Concat <axis = 0> (d, rest)"""
ENDS = {"padded": PAD, "in front": FRONT, "joined": JOINED}


def padded(end: str, begin: str = "SequenceConstruct (first)", add: str = "") -> str:
    """Return a graph whose Loop pads the first rows of each sample and appends them to a list."""
    add = add or "has = SequenceInsert (had, v)"
    return f"""g (float[N,6,4] x, int64[N] lengths, float[6,4] first) => (float[P,Q,4] y) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        o = Constant <value = int64[1] {{0}}> ()  one = Constant <value = int64[1] {{1}}> ()
        four = Constant <value = int64[1] {{4}}> ()  six = Constant <value = int64[1] {{6}}> ()
        fill = Constant <value = float {{-1}}> ()
        n = Shape <start = 0, end = 1> (x)  count = Squeeze (n)
        start = {begin}
        all = Loop (count, t, start) <body = step (int64 i, bool more, seq(float[P,4]) had)
            => (bool on, seq(float[Q,4]) has) {{
            on = Identity (more)
            row = Gather <axis = 0> (x, i)  at = Gather <axis = 0> (lengths, i)
            end = Unsqueeze (at, o)  d1 = Slice (row, o, end, o)  d = Tanh (d1)
            size = Shape <start = 0, end = 1> (d)
            {end}
            {add}
        }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }}"""


def feeds(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((count, 6, 4)).astype(np.float32)
    x[count // 2 :][:1] = np.nan
    first = rng.standard_normal((6, 4)).astype(np.float32)
    return {"x": x, "lengths": rng.integers(0, 8, count), "first": first}


LENGTHS = [0, 1, 2, 7, 64]


@pytest.mark.parametrize("begin", ["first", "first, first"])
@pytest.mark.parametrize("name", ENDS)
def test_what_is_stacked_behind_first_elements_is_padded_at_once(name: str, begin: str) -> None:
    prove(padded(ENDS[name], f"SequenceConstruct ({begin})"), *map(feeds, LENGTHS))


OPEN = {
    "not padded": "v = Identity (d)",
    "padded by a number": "pads = Concat <axis = 0> (o, o, one, o)  v = Pad (d, pads, fill)",
}


@pytest.mark.parametrize("name", OPEN)
def test_rows_of_any_length_are_stacked_where_they_happen_to_be_equally_long(name: str) -> None:
    """Where they are not, the model fails as it was."""
    size = 6 if name == "not padded" else 5
    alike = [{**feeds(count), "lengths": np.full(count, size)} for count in LENGTHS]
    prove(padded(OPEN[name]), *alike)


def test_rows_that_fit_where_they_are_added_stay() -> None:
    """Those that no iteration adds have any length."""
    add = """w = Slice (d, o, six, o)  most = Constant <value = int64[1] {5}> ()
        is_long = Greater (size, most)  flag = Squeeze (is_long)
        has = If (flag) <then_branch = yes () => (seq(float[P,4]) a) { a = SequenceInsert (had, w) },
            else_branch = no () => (seq(float[P,4]) b) { b = Identity (had) }>"""
    before = model(padded("", add=add))
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
