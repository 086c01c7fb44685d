"""Rows written to places that later iterations write to again: what is written last holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from passes.decisions import Verdict
from rewriter import rewrite
from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

PREPARE = """minus1 = Constant <value = int64[1] {-1}> ()
        three = Constant <value = int64 {3}> ()
        far = Constant <value = int64[1] {9223372036854775807}> ()
        minus_two = Constant <value = int64 {-2}> ()"""
ROWS, SQUARE, VECTOR, IDS = "float[R,4]", "float[R,4]", "float[R]", "int64[R]"
POINT = "k1 = Unsqueeze (spot, zero1)  places = Unsqueeze (k1, minus1)"
ROW = f"{POINT}  u = Unsqueeze (e, zero1)  s2 = ScatterND (s, places, u)"
LENGTH = "h = Shape (s)  size = Gather <axis = 0> (h, zero)"
RING = f"{LENGTH}  spot = Mod (i, size)"
ANY = f"{LENGTH}  k0 = Gather <axis = 0> (ke, zero)  spot = Mod (k0, size)"
EXPORTED = f"""{RING}  old = Gather <axis = 0> (s, spot)  form = Shape (old)
            wide = Expand (e, form)  {POINT}  many = Shape (k1)
            rest = Slice (h, one1, far, zero1)  whole = Concat <axis = 0> (many, rest)
            u = Reshape (wide, whole)  s2 = ScatterND (s, places, u)"""

WRITES = {
    "a_ring": (ROWS, f"{RING}  {ROW}"),
    "as_torchscript_writes_it": (ROWS, EXPORTED),
    "backwards": (ROWS, f"{LENGTH}  back = Neg (i)  spot = Mod (back, size)  {ROW}"),
    "every_third": (ROWS, f"{LENGTH}  i3 = Mul (i, three)  spot = Mod (i3, size)  {ROW}"),
    "a_ring_of_three": (ROWS, f"spot = Mod (i, three)  {ROW}"),
    "always_one_place": (ROWS, f"spot = Identity (one)  {ROW}"),
    "any_place": (ROWS, f"{ANY}  {ROW}"),
    "where_the_data_says": (
        ROWS,
        f"""{LENGTH}  a0 = ArgMax <axis = 0, keepdims = 1> (e)  a = Mod (a0, size)
            s2 = ScatterND (s, a, e)""",
    ),
    "from_the_end": (
        ROWS,
        f"{RING}  m0 = Sub (spot, size)  odd = Gather <axis = 0> (pe, zero)  n1 = Where (odd, m0, spot)"
        f"  {ROW}".replace("Unsqueeze (spot,", "Unsqueeze (n1,"),
    ),
    "one_place_of_one_axis": (VECTOR, f"{RING}  v = Gather <axis = 0> (e, one)  {ROW}".replace(
        "Unsqueeze (e, zero1)", "Unsqueeze (v, zero1)"
    )),
    "numbers": (IDS, f"{ANY}  v = Gather <axis = 0> (ke, one)  {ROW}".replace(
        "Unsqueeze (e, zero1)", "Unsqueeze (v, zero1)"
    )),
    "a_number_at_two_coordinates": (
        SQUARE,
        f"""{ANY}  j0 = Gather <axis = 0> (ke, one)  j1 = Abs (j0)  j = Mod (j1, three)
            j2 = Unsqueeze (j, zero1)  k2 = Unsqueeze (spot, zero1)
            places = Concat <axis = 0> (k2, j2)  v = Gather <axis = 0> (e, one)
            s2 = ScatterND (s, places, v)""",
    ),
    "two_places": (
        ROWS,
        f"""{RING}  k1 = Unsqueeze (spot, zero1)  next = Add (spot, one)  l = Mod (next, size)
            l1 = Unsqueeze (l, zero1)  both = Concat <axis = 0> (k1, l1)
            places = Unsqueeze (both, minus1)  twice = Neg (e)  e1 = Unsqueeze (e, zero1)
            e2 = Unsqueeze (twice, zero1)  u = Concat <axis = 0> (e1, e2)
            s2 = ScatterND (s, places, u)""",
    ),
    "under_a_condition": (
        ROWS,
        f"""{RING}  flag = Gather <axis = 0> (pe, zero)
            s2 = If (flag) <
                then_branch = one_of () => (float[R,4] v) {{
                    {ROW.replace("s2 =", "v =")} }},
                else_branch = other () => (float[R,4] lo) {{ lo = Identity (s) }}>""",
    ),
}  # fmt: skip

STARTS = {VECTOR: "Gather <axis = 1> (start, zero)", IDS: "ids"}


def written(name: str, dialect: str) -> str:
    """Return a graph that writes so."""
    state, body = WRITES[name]
    more = f"{PREPARE}  first = Gather <axis = 1> (start, zero)  ids = Cast <to = 7> (first)"
    return loop(
        dialect, state, with_number(body, dialect), STARTS.get(state, "start"), prepare=more
    )


def with_number(body: str, dialect: str) -> str:
    """Let a Scan, which has no number of its iteration, read one of its rows."""
    number = "i = Gather <axis = 0> (ke, zero)  " if dialect == "scan" else ""
    return number + body


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", WRITES)
def test_the_last_row_of_a_place_holds(name: str, dialect: str) -> None:
    before = model(written(name, dialect))
    found = read(before, auto=True)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED, decision.reasons
    # A Scan has no copies of its body for few iterations.
    assert found.loops == (decision.few > 0 and dialect == "scan")
    lengths = LENGTHS[dialect == "scan" :]  # onnxruntime has no Scan of no iteration
    assert same(before, found.model, *map(feeds, lengths)) == len(lengths)


@pytest.mark.parametrize("dialect", ["counted", "endless", "while"])
def test_a_place_counted_on_from_a_given_one(dialect: str) -> None:
    """It may begin below 0, and go on to what it has written from the end."""
    more = f"{PREPARE}  given = Gather <axis = 0> (c, zero)"
    before = model(loop(dialect, ROWS, f"spot = Add (i, given)  {ROW}", "start", prepare=more))
    found = read(before, auto=True)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    cases = [
        (0, -5, 5),
        (1, -1, 5),
        (2, -1, 5),
        (7, -5, 5),
        (7, -2, 5),
        (64, 2, 70),
        (64, -70, 70),
    ]
    assert same(before, found.model, *(places(*case) for case in cases)) == len(cases)


@pytest.mark.parametrize("dialect", ["counted", "endless"])
def test_a_place_counted_back_from_a_given_one(dialect: str) -> None:
    more = f"{PREPARE}  given = Gather <axis = 0> (c, zero)"
    before = model(loop(dialect, ROWS, f"spot = Sub (given, i)  {ROW}", "start", prepare=more))
    found = read(before, auto=True)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    cases = [(0, 4, 5), (1, -5, 5), (2, 0, 5), (7, 4, 5), (7, 2, 5), (64, 65, 70)]
    assert same(before, found.model, *(places(*case) for case in cases)) == len(cases)


def places(count: int, first: int, rows: int) -> Mapping[str, np.ndarray]:
    """Make the inputs of so many iterations that begin at a place of so many."""
    start = np.random.default_rng(count).standard_normal((rows, 4)).astype(np.float32)
    return feeds(count, start=start, c=np.array([first, 0, 0, 0]))


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_at_other_opsets(opset: int) -> None:
    before = model(written("any_place", "counted"), opset)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_target_without_control_flow_takes_them() -> None:
    before = model(written("a_ring", "counted"))
    made = rewrite(before, target="portable").model
    assert same(before, made, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_not_a_number_in_a_row_that_is_replaced_is_gone() -> None:
    before = model(written("a_ring_of_three", "counted"))
    found = read(before)
    feed = dict(feeds(7))
    feed["x"] = np.array(feed["x"])
    feed["x"][2] = np.nan
    assert same(before, found.model, feed) == 1


COLUMN = f"""h = Shape (s)  size = Gather <axis = 0> (h, one)  spot = Mod (i, size)
            {counted(0, "down")}  across = Unsqueeze (spot, zero1)
            {grid("down", "across")}"""
COLUMNS = {
    "a_number_for_all": f"""{COLUMN}  v = Gather <axis = 0> (e, one)  many = Shape (down)
            q0 = Expand (v, many)  u = Reshape (q0, size_of_grid)
            s2 = ScatterND (s, places, u)""",
    "a_column": f"""{COLUMN}  q0 = Mul (first, small)  q1 = Gather <axis = 0> (e, zero)
            q2 = Add (q0, q1)  u = Reshape (q2, size_of_grid)  s2 = ScatterND (s, places, u)""",
    "a_column_of_open_size": f"""{COLUMN}  q0 = Mul (first, small)  q1 = Gather <axis = 0> (e, zero)
            q2 = Add (q0, q1)  q3 = Concat <axis = 0> (q2, q0)  many = Shape (down)
            q4 = Slice (q3, zero1, many, zero1)  u = Reshape (q4, size_of_grid)
            s2 = ScatterND (s, places, u)""",
    "under_a_condition": f"""flag = Gather <axis = 0> (pe, zero)  {COLUMN}
            s2 = If (flag) <
                then_branch = one_of () => (float[R,4] v) {{
                    q0 = Mul (first, small)  q1 = Gather <axis = 0> (e, zero)
                    q2 = Add (q0, q1)  u = Reshape (q2, size_of_grid)
                    v = ScatterND (s, places, u) }},
                else_branch = other () => (float[R,4] lo) {{ lo = Identity (s) }}>""",
}


def columns(name: str) -> str:
    """Return a graph that writes to columns so."""
    more = f"""{CONSTANTS}
        first = Gather <axis = 1> (start, zero)  small = Constant <value = float {{0.5}}> ()"""
    return loop("counted", ROWS, COLUMNS[name], "start", prepare=more)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_ring_of_columns(name: str) -> None:
    before = model(columns(name))
    found = read(before, auto=True)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_a_part_of_a_column_is_no_column() -> None:
    part = COLUMN.replace(
        "g0 = Reshape (down,", "down2 = Slice (down, one1, far)  g0 = Reshape (down2,"
    )
    body = f"""{part}  v = Gather <axis = 0> (e, one)  u = Expand (v, size_of_grid)
            s2 = ScatterND (s, places, u)"""
    before = model(loop("counted", ROWS, body, "start", prepare=CONSTANTS))
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


NEAR = {
    "what_was_written_is_read": f"{RING}  old = Gather <axis = 0> (s, spot)  e2 = Sub (e, old)  {ROW}"
    .replace("Unsqueeze (e, zero1)", "Unsqueeze (e3, zero1)")
    .replace("e2 = Sub (e, old)", "e2 = Sub (e, old)  e3 = Tanh (e2)"),
    "another_place_is_read": f"""{RING}  next = Add (spot, one)  l = Mod (next, size)
            old = Gather <axis = 0> (s, l)  e2 = Add (e, old)  {ROW}""".replace(
        "Unsqueeze (e, zero1)", "Unsqueeze (e2, zero1)"
    ),
    "what_was_written_says_where": f"""{LENGTH}  old = ReduceMax <keepdims = 0> (s)
            o1 = Cast <to = 7> (old)  spot = Mod (o1, size)  {ROW}""",
    "each_iteration_shifts_it": f"{RING}  {ROW}".replace(
        "ScatterND (s,", "ScatterND (turned,"
    ).replace("h = Shape (s)", "turned = Neg (s)  h = Shape (s)"),
    "all_that_was_written_is_read": f"""{RING}  mean = ReduceMax <keepdims = 0> (s)
            flag = Less (mean, z)  e2 = Where (flag, e, b)  {ROW}""".replace(
        "Unsqueeze (e, zero1)", "Unsqueeze (e2, zero1)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_rows_that_depend_on_others_stay_in_a_loop(name: str) -> None:
    before = model(loop("counted", ROWS, NEAR[name], "start", prepare=PREPARE))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


def test_no_windows_of_less_than_a_window() -> None:
    """Where there are none, nothing is expanded to the size of one."""
    text = """g (float[N] x) => (float[M,4] r) {
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64 {0}> ()
        one = Constant <value = int64 {1}> ()
        two = Constant <value = int64 {2}> ()
        four = Constant <value = int64 {4}> ()
        zero1 = Constant <value = int64[1] {0}> ()
        row = Constant <value = int64[1] {4}> ()
        shape = Shape (x)
        size = Gather <axis = 0> (shape, zero)
        left = Sub (size, four)  half = Div (left, two)  n0 = Add (half, one)  n = Max (zero, n0)
        n1 = Unsqueeze (n, zero1)  whole = Concat <axis = 0> (n1, row)
        none = ConstantOfShape (whole)
        r = Loop (n, t, none) <body = step (int64 i, bool cond, float[M,4] s)
            => (bool go, float[M,4] s2) {
            from = Mul (i, two)  to = Add (from, four)
            from1 = Unsqueeze (from, zero1)  to1 = Unsqueeze (to, zero1)
            e = Slice (x, from1, to1, zero1)
            wide = Expand (e, row)  u = Unsqueeze (wide, zero1)
            i1 = Unsqueeze (i, zero1)  places = Unsqueeze (i1, zero1)
            s2 = ScatterND (s, places, u)
            go = Identity (cond)
        }>
    }"""
    before = model(text)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [{"x": np.arange(n, dtype=np.float32)} for n in (0, 1, 2, 4, 5, 7, 64)]
    assert same(before, found.model, *given) == len(given)
