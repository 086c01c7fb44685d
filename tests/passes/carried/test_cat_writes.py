"""Rows of what a loop carries that a Concat of slices replaces."""

from __future__ import annotations

import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

PREPARE = """far = Constant <value = int64[1] {9223372036854775807}> ()
        two = Constant <value = int64 {2}> ()  two1 = Constant <value = int64[1] {2}> ()
        all2 = Constant <value = int64[2] {4, 2}> ()"""
ENDS = "a = Unsqueeze (i, zero1)  b0 = Add (i, one)  o1 = Unsqueeze (b0, zero1)"
ROW = "q = Unsqueeze (e, zero1)"


def replaced(ends: str = ENDS, row: str = ROW, axis: str = "zero1", rows: str = "q") -> str:
    """Compute ``s2``: the rows from ``a`` to ``o1`` are others."""
    number = 0 if axis == "zero1" else 1
    return f"""{ends}  {row}
            front = Slice (s, zero1, a, {axis}, one1)
            back = Slice (s, o1, far, {axis}, one1)
            s2 = Concat <axis = {number}> (front, {rows}, back)"""


TWICE = (
    "i2 = Mul (i, two)  a = Unsqueeze (i2, zero1)  b0 = Add (i2, two)  o1 = Unsqueeze (b0, zero1)"
)
LATER = (
    "i2 = Add (i, two)  a = Unsqueeze (i2, zero1)  b0 = Add (i2, one)  o1 = Unsqueeze (b0, zero1)"
)
ROWS = "float[Q,4]"
WRITES = {
    "a_row": (ROWS, "Identity (start)", replaced()),
    "a_row_of_as_many": (ROWS, "Identity (w)", replaced()),
    "a_row_further_on": (ROWS, "Identity (start)", replaced(LATER)),
    "two_rows": (ROWS, "Identity (w)", replaced(TWICE, f"{ROW}  neg = Neg (q)", rows="q, neg")),
    "a_column": (
        "float[4,Q]",
        "Transpose <perm = [1, 0]> (start)",
        replaced(row="q = Unsqueeze (e, one1)", axis="one1"),
    ),
    "a_row_of_a_slice": (
        ROWS,
        "Identity (start)",
        replaced(row="q = Slice (x, a, o1, zero1)")
        .replace("(s, zero1", "(sw, zero1")
        .replace("front =", "sw = Slice (s, zero1, far, one1)  front ="),
    ),
}


@pytest.mark.parametrize("dialect", ["counted", "endless", "while"])
@pytest.mark.parametrize("name", WRITES)
def test_replaced_rows_end_without_a_loop(name: str, dialect: str) -> None:
    """The tensor may have fewer rows than there are iterations: then it grows."""
    state, begin, body = WRITES[name]
    before = model(loop(dialect, state, body, begin, prepare=PREPARE))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_target_without_control_flow_takes_them() -> None:
    before = model(loop("counted", ROWS, replaced(), "Identity (start)", prepare=PREPARE))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


NEAR = {
    "it_shrinks": replaced().replace("(i, one)", "(i, two)"),
    "it_grows": replaced().replace("(i, one)", "(i, zero)"),
    "it_writes_to_every_second_row": replaced(TWICE.replace("(i2, two)", "(i2, one)")),
    "it_reads_what_it_replaces": replaced(row="old = Slice (s, a, o1, zero1)  q = Tanh (old)"),
    "it_gains_two_for_one": replaced(row=f"{ROW}  neg = Neg (q)", rows="q, neg"),
    "it_leaves_out_the_first_row": replaced(LATER).replace("(s, zero1, a", "(s, one1, a"),
    "it_leaves_out_the_last_row": replaced()
    .replace("(s, o1, far", "(s, o1, end")
    .replace("front =", "end = Constant <value = int64[1] {-1}> ()  front ="),
    "it_begins_in_front": replaced(LATER.replace("Add (i, two)", "Sub (i, two)")),
}


@pytest.mark.parametrize("name", NEAR)
def test_other_slices_stay_in_a_loop(name: str) -> None:
    before = model(loop("counted", ROWS, NEAR[name], "Identity (start)", prepare=PREPARE))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    same(before, found.model, *map(feeds, LENGTHS))
