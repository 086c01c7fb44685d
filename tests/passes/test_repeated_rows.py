"""Rows that are repeated by numbers of their own, as PyTorch's exporter writes repeat_interleave."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.loops import model, read

TEXT = """g (float[n,3] x, int64[m] r) => (float[?,?] y) {{
    zero = Constant <value = int64 {{0}}> ()
    t = Constant <value = bool {{1}}> ()
    dims = Shape (x)
    count = Gather (dims, zero)
    shape = Shape (r)
    each = ConstantOfShape <value = int64[1] {{{size}}}> (shape)
    numbers = SplitToSequence <axis = 0> (r, ones)
    rows = SplitToSequence <axis = 0> (x, each)
    ones = ConstantOfShape <value = int64[1] {{1}}> (shape)
    none = SequenceEmpty <dtype = 1> ()
    all = Loop (count, t, none) <body = step (int64 i, bool c, seq(float[?,?]) s)
        => (bool d, seq(float[?,?]) g) {{
        number = SequenceAt (numbers, i)
        row = SequenceAt (rows, i)
        axis = Constant <value = int64[1] {{1}}> ()
        one = Constant <value = int64[1] {{1}}> ()
        three = Constant <value = int64[1] {{3}}> ()
        wide = Unsqueeze (row, axis)
        asked = Concat <axis = 0> (one, number, three)
        size = Shape (asked)
        every = ConstantOfShape <value = int64[1] {{1}}> (size)
        minus = Constant <value = int64 {{-1}}> ()
        open = Mul (every, minus)
        is_open = Equal (asked, open)
        target = Where (is_open, every, asked)
        many = Expand (wide, target)
        back = Constant <value = int64[2] {{-1, 3}}> ()
        flat = Reshape (many, back)
        g = SequenceInsert (s, flat)
        d = Identity (c)
    }}>
    y = ConcatFromSequence <axis = 0> (all)
}}"""


def text(size: int = 1) -> str:
    lines = TEXT.format(size=size).splitlines()
    ones = next(at for at, line in enumerate(lines) if line.lstrip().startswith("ones ="))
    lines.insert(ones - 2, lines.pop(ones))
    return "\n".join(lines)


def feed(rows: int, *numbers: int) -> dict[str, np.ndarray]:
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    return {"x": x, "r": np.array(numbers, np.int64)}


@pytest.mark.parametrize("numbers", [(2,), (2, 0, 3), (1, 1, 1, 1), (0, 5)])
def test_each_row_is_repeated(numbers: tuple[int, ...]) -> None:
    before = model(text())
    found = read(before)
    assert found.loops == 0
    given = feed(len(numbers), *numbers)
    expected, made = (open_session(one).run(given) for one in (before, found.model))
    np.testing.assert_array_equal(made["y"], expected["y"])
    np.testing.assert_array_equal(made["y"], np.repeat(given["x"], numbers, axis=0))


@pytest.mark.parametrize("given", [feed(3, 1, 2), feed(2, 1, 2, 1), feed(2, 1, -2)], ids=str)
def test_other_numbers_than_rows_are_an_error(given: dict[str, np.ndarray]) -> None:
    before = model(text())
    for one in (before, read(before).model):
        with pytest.raises(BackendError):
            open_session(one).run(given)
