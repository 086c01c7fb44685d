"""Writes to what a loop carries under a condition, several in one iteration, or at a count."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop
from tests.passes.loops import model, read, same

STATE = "float[N,4]"
FLAG = "flag = Gather <axis = 0> (pe, zero)"
ROW = """i1 = Unsqueeze (i, zero1)
            places = Unsqueeze (i1, minus1)
            u = Unsqueeze (e, zero1)"""
HERE = f"{ROW}  v = ScatterND (s, places, u)"
COLUMN = "k0 = Gather <axis = 0> (ke, zero)  m4 = Mod (k0, four)  k1 = Unsqueeze (m4, zero1)"
ADDED = f"""{COLUMN}
            places = Unsqueeze (k1, minus1)
            u = Unsqueeze (e, zero1)
            v = ScatterND <reduction = "add"> (s, places, u)"""
MADE = """minus1 = Constant <value = int64[1] {-1}> ()
        four = Constant <value = int64 {4}> ()
        three1 = Constant <value = int64[1] {3}> ()
        half = Constant <value = float {0.5}> ()"""


def taken(then: str, state: str = STATE, *, turned: bool = False, flag: str = FLAG) -> str:
    """Compute ``v`` where the flag holds, or where it does not, and hand on ``s`` elsewhere."""
    one, other = ("else", "then") if turned else ("then", "else")
    return f"""{flag}
            s2 = If (flag) <
                {one}_branch = one () => ({state} v) {{ {then} }},
                {other}_branch = other () => ({state} lo) {{ lo = Identity (s) }}>"""


def either(then: str, other: str, state: str = STATE) -> str:
    """Compute ``v`` in one branch and ``lo`` in the other."""
    return f"""{FLAG}
            s2 = If (flag) <
                then_branch = one () => ({state} v) {{ {then} }},
                else_branch = other () => ({state} lo) {{ {other} }}>"""


SECOND = "flag2 = Gather <axis = 0> (pe, one)"
NESTED = f"""{SECOND}
            v = If (flag2) <
                then_branch = two () => ({STATE} a2) {{ {HERE.replace("v =", "a2 =")} }},
                else_branch = three () => ({STATE} b2) {{ b2 = Identity (s) }}>"""
CELL = """n1 = Neg (e)  c1 = Unsqueeze (i, zero1)
            row2 = Unsqueeze (c1, zero1)
            column2 = Unsqueeze (three1, zero1)
            cell = Concat <axis = 1> (row2, column2)
            m0 = Gather <axis = 0> (n1, zero)
            m1 = Unsqueeze (m0, zero1)"""
WRITES = {
    "a_row": (STATE, "Identity (w)", taken(HERE)),
    "a_row_where_it_is_false": (STATE, "Identity (w)", taken(HERE, turned=True)),
    "a_row_in_two_branches": (STATE, "Identity (w)", taken(NESTED)),
    "one_row_or_another": (
        STATE,
        "Identity (w)",
        either(
            HERE,
            f"n2 = Neg (e)  {HERE.replace('(e, zero1)', '(n2, zero1)')}".replace("v =", "lo ="),
        ),
    ),
    "a_row_by_where": (
        STATE,
        "Identity (w)",
        f"{FLAG}  {HERE}  s2 = Where (flag, v, s)",
    ),
    "elements": (
        STATE,
        "Identity (w)",
        taken(
            """i1 = Unsqueeze (i, zero1)  at2 = Unsqueeze (i1, zero1)
            q = Constant <value = int64[2] {1, 4}> ()  all4 = Expand (at2, q)
            u = Unsqueeze (e, zero1)
            v = ScatterElements <axis = 0> (s, all4, u)"""
        ),
    ),
    "a_row_and_a_cell_of_it": (
        STATE,
        "Identity (w)",
        f"{HERE}  {CELL}  s2 = ScatterND (v, cell, m1)",
    ),
    "a_row_and_a_cell_of_some": (
        STATE,
        "Identity (w)",
        f"""{HERE.replace("v =", "s1 =")}  {FLAG}
            s2 = If (flag) <
                then_branch = one () => ({STATE} v) {{ {CELL}  v = ScatterND (s1, cell, m1) }},
                else_branch = other () => ({STATE} x1) {{ x1 = Identity (s1) }}>""",
    ),
    "two_rows_side_by_side": (
        STATE,
        "Concat <axis = 0> (w, w)",
        """two = Add (one, one)  t2 = Mul (i, two)  t3 = Add (t2, one)  n3 = Neg (e)
            i2 = Unsqueeze (t2, zero1)  p2 = Unsqueeze (i2, minus1)  u2 = Unsqueeze (e, zero1)
            i3 = Unsqueeze (t3, zero1)  p3 = Unsqueeze (i3, minus1)  u3 = Unsqueeze (n3, zero1)
            s1 = ScatterND (s, p3, u3)  s2 = ScatterND (s1, p2, u2)""",
    ),
    "both_of_some": (
        STATE,
        "Identity (w)",
        taken(f"{HERE.replace('v =', 's1 =')}  {CELL}  v = ScatterND (s1, cell, m1)"),
    ),
    "sums": ("float[4,4]", "Expand (z, sixteen)", taken(ADDED, "float[4,4]")),
    "sums_of_either": (
        "float[4,4]",
        "Expand (z, sixteen)",
        either(
            ADDED,
            f"h4 = Mul (e, half)  {ADDED.replace('(e, zero1)', '(h4, zero1)')}".replace(
                "v =", "lo ="
            ),
            "float[4,4]",
        ),
    ),
}
PREPARE = f"{MADE}  sixteen = Constant <value = int64[2] {{4, 4}}> ()"


def written(name: str, dialect: str) -> str:
    """Return the graph of a case."""
    state, begin, body = WRITES[name]
    if begin.startswith("Concat"):
        state = state.replace("N", "M")
    return loop(dialect, state, body, begin, prepare=PREPARE)


CASES = [
    (name, dialect)
    for name in WRITES
    for dialect in DIALECTS
    if dialect != "scan" or "sums" in name
]


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_writes_of_some_iterations_end_without_a_loop(name: str, dialect: str) -> None:
    before = model(written(name, dialect))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    runs = len(LENGTHS) - (dialect == "scan")  # a Scan of no steps fails as given
    assert same(before, found.model, *map(feeds, LENGTHS)) == runs


@pytest.mark.parametrize("name", ["a_row", "one_row_or_another", "sums"])
def test_what_is_left_out_spoils_nothing(name: str) -> None:
    """An inf or a NaN of an iteration that does not write is nowhere in the result."""
    rows = np.array([[np.inf] * 4, [np.nan] * 4, [1] * 4, [-np.inf] * 4], np.float32)
    before = model(written(name, "counted"))
    feed = feeds(4, x=rows)
    assert same(before, read(before).model, feed) == 1


@pytest.mark.parametrize("name", ["a_row", "one_row_or_another", "a_row_and_a_cell_of_it"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(written(name, "counted"))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_sums_of_floats_round_and_rows_do_not() -> None:
    sums, rows = (model(written(name, "counted")) for name in ("sums", "a_row"))
    assert read(sums, exact=True).loops == 1
    assert read(rows, exact=True).loops == 0


CONDITION = "old = Gather <axis = 0> (s, zero)  first = Gather <axis = 0> (old, zero)  flag = Less (first, half)"
NEAR = {
    "the_condition_reads_the_tensor": (taken(HERE, flag=CONDITION), "recurrence"),
    "a_row_reads_the_one_before": (
        taken(
            """b1 = Sub (i, one)  m1 = Max (b1, zero)  old = Gather <axis = 0> (s, m1)
            q = Add (old, e)  i1 = Unsqueeze (i, zero1)  places = Unsqueeze (i1, minus1)
            u = Unsqueeze (q, zero1)  v = ScatterND (s, places, u)"""
        ),
        "recurrence",
    ),
    "two_iterations_meet": (
        f"""{HERE.replace("v =", "s1 =")}  {FLAG}
            s2 = If (flag) <
                then_branch = one () => ({STATE} v) {{
                    j1 = Sub (i1, one1)  j2 = Max (j1, zero1)  p2 = Unsqueeze (j2, minus1)
                    n2 = Neg (u)  v = ScatterND (s1, p2, n2) }},
                else_branch = other () => ({STATE} x1) {{ x1 = Identity (s1) }}>""",
        "recurrence",
    ),
    "rows_side_by_side_that_overlap_and_are_read": (
        """i3 = Unsqueeze (i, zero1)  p3 = Unsqueeze (i3, minus1)
            old = Gather <axis = 0> (s, i)  o3 = Sin (old)  o4 = Sub (e, o3)
            u3 = Unsqueeze (o4, zero1)  t4 = Add (i, one)  i4 = Unsqueeze (t4, zero1)
            p4 = Unsqueeze (i4, minus1)  n4 = Neg (e)  u4 = Unsqueeze (n4, zero1)
            s1 = ScatterND (s, p3, u3)  s2 = ScatterND (s1, p4, u4)""",
        "recurrence",
    ),
    "a_row_of_any_number_that_was_read": (
        taken(
            """k0 = Gather <axis = 0> (ke, zero)  m0 = Abs (k0)  m4 = Mod (m0, n)
            k1 = Unsqueeze (m4, zero1)  places = Unsqueeze (k1, minus1)
            u0 = Gather <axis = 0> (s, m4)  u1 = Sin (u0)  u2 = Sub (e, u1)
            u = Unsqueeze (u2, zero1)  v = ScatterND (s, places, u)"""
        ),
        "recurrence",
    ),
}


def onto_twice_as_many(body: str) -> onnx.ModelProto:
    """Return a Loop that writes to a tensor of twice as many rows as it has iterations."""
    more, begin = "  last_row = Sub (n, one)", "Concat <axis = 0> (w, w)"
    state, nodes = STATE.replace("N", "M"), body.replace(STATE, "float[M,4]")
    return model(loop("counted", state, nodes, begin, prepare=PREPARE + more))


def test_rows_side_by_side_that_overlap() -> None:
    """What the next iteration writes to a row comes later."""
    before = onto_twice_as_many(
        """i3 = Unsqueeze (i, zero1)  p3 = Unsqueeze (i3, minus1)  u3 = Unsqueeze (e, zero1)
        t4 = Add (i, one)  i4 = Unsqueeze (t4, zero1)  p4 = Unsqueeze (i4, minus1)
        n4 = Neg (e)  u4 = Unsqueeze (n4, zero1)
        s1 = ScatterND (s, p3, u3)  s2 = ScatterND (s1, p4, u4)"""
    )
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


@pytest.mark.parametrize("name", NEAR)
def test_what_another_iteration_decides_stays_a_loop(name: str) -> None:
    body, code = NEAR[name]
    before = onto_twice_as_many(body)
    found = read(before)
    assert found.loops >= 1
    assert code in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_row_of_any_number() -> None:
    """The last of the iterations that write to a row holds."""
    body = taken(
        """k0 = Gather <axis = 0> (ke, zero)  m0 = Abs (k0)  m4 = Mod (m0, n)
        k1 = Unsqueeze (m4, zero1)  places = Unsqueeze (k1, minus1)
        u = Unsqueeze (e, zero1)  v = ScatterND (s, places, u)"""
    )
    begin = "Concat <axis = 0> (w, w)"
    state = STATE.replace("N", "M")
    text = loop("counted", state, body.replace(STATE, "float[M,4]"), begin, prepare=PREPARE)
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
