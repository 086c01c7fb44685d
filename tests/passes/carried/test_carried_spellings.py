"""Carried values in other spellings: flags, branches in branches, opposites, work done twice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop, nested, nested_feeds
from tests.passes.carried.test_carried import FLAGS, INTS, ROW, Case
from tests.passes.loops import model, prove, read, same

ANY = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
LOW = "h2 = ReduceMin <axes = [0], keepdims = 0> (e)  l2 = Less (h2, z)"
FLAG = "carried flag"
LARGEST, SMALLEST = "best so far (maximum)", "best so far (minimum)"
LAST = "last value where a condition holds"
TABLE = """t0 = ReduceMax <axes = [0], keepdims = 0> (ke)  t3 = Constant <value = int64 {3}> ()
            t1 = Mod (t0, t3)  at0 = Unsqueeze (t1, zero1)"""


def _if(condition: str, then: str, other: str, name: str = "s2") -> str:
    """Write an If; each branch is a type, its nodes, and what it yields."""
    return f"""{name} = If ({condition}) <
            then_branch = yes_{name} () => {then},
            else_branch = no_{name} () => {other}>"""


KEPT = "(TYPE k_NAME) { k_NAME = Identity (s) }"


def _kept(state: str, name: str) -> str:
    return KEPT.replace("TYPE", state).replace("NAME", name)


NUMBERS = """s0 = Cast <to = 6> (s)  c2 = Cast <to = 6> (l2)  u2 = Not (l2)  d2 = Cast <to = 6> (u2)
            off = Mul (c2, zero32)  on = Mul (s0, d2)  a0 = Add (off, on)  a1 = Cast <to = 9> (a0)
            a2 = Cast <to = 6> (a1)  c1 = Cast <to = 6> (l)  u1 = Not (l)  d1 = Cast <to = 6> (u1)
            set = Mul (c1, one32)  held = Mul (a2, d1)  a3 = Add (set, held)
            s2 = Cast <to = 9> (a3)"""
"""``s2 = 1 if l else 0 if l2 else s`` as TensorFlow's exporter writes it."""

SHORTER = NUMBERS.replace("set = Mul (c1, one32)  held", "held").replace(
    "(set, held)", "(c1, held)"
)
"""The same where a product by one is gone, as onnxruntime saves it."""

CASES = {
    "set_or_held": Case(
        FLAGS,
        "u = Not (pe)  d = Not (s)  a = And (u, d)  s2 = Not (a)  y = Identity (s2)",
        "f",
        FLAG,
        FLAGS,
    ),
    "two_levels": Case(
        "bool",
        f"{ANY}  {LOW}  a = Not (l2)  held = And (s, a)  s2 = Or (l, held)  y = Identity (s)",
        "Not (t)",
        FLAG,
        "bool",
    ),
    "turned_by_a_branch": Case(
        "bool",
        f"{ANY}  " + _if("l", "(bool v) { v = Not (s) }", _kept("bool", "s2")) + "  y = Identity (s2)",
        "Identity (t)",
        FLAG,
        "bool",
    ),
    "set_or_cleared_in_numbers": Case(
        "bool",
        f"{ANY}  {LOW}  {NUMBERS}  y = Identity (s2)",
        "Not (t)",
        FLAG,
        "bool",
    ),
    "set_or_cleared_in_numbers_without_a_product_by_one": Case(
        "bool",
        f"{ANY}  {LOW}  {SHORTER}  y = Identity (s2)",
        "Not (t)",
        FLAG,
        "bool",
    ),
    "turned_elements": Case(
        FLAGS, "u = Xor (s, pe)  v = And (u, f)  s2 = Or (v, pe)  y = Identity (s2)", "f", FLAG, FLAGS
    ),
    "found_by_a_script": Case(
        "bool",
        f"{ANY}  "
        + _if("l", "(bool n1) { n1 = Not (s) }", "(bool n2) { n2 = Less (z, z) }", "g0")
        + "  g = Cast <to = 9> (g0)  "
        + _if("g", "(bool v) { v = Identity (t) }", _kept("bool", "s2"))
        + "  y = Identity (s2)",
        "Not (t)",
        FLAG,
        "bool",
    ),
    "sum_of_branches_in_branches": Case(
        ROW,
        f"{ANY}  {LOW}  "
        + _if(
            "l",
            "(float[4] v) { " + _if("l2", "(float[4] w1) { w1 = Add (s, e) }", _kept(ROW, "v"), "v") + " }",
            "(float[4] w2) { w2 = Sub (s, e) }",
        )
        + "  y = Identity (s2)",
        "b",
        "carried sum under a condition",
        ROW,
    ),
    "largest_of_branches_in_branches": Case(
        INTS,
        f"{ANY}  {LOW}  "
        + _if(
            "l",
            "(int64[4] v) { " + _if("l2", _kept(INTS, "q"), "(int64[4] w1) { w1 = Max (ke, s) }", "v") + " }",
            _kept(INTS, "s2"),
        ),
        "c",
        "carried maximum under a condition",
    ),
    "largest_where_not": Case(
        ROW, "l = LessOrEqual (s, e)  m = Not (l)  s2 = Where (m, s, e)  y = Identity (s2)", "b", LARGEST, ROW
    ),
    "smallest_of_integers_where_not": Case(
        INTS, "l = GreaterOrEqual (ke, s)  m = Not (l)  s2 = Where (m, ke, s)", "c", SMALLEST
    ),
    "smallest_of_integers_kept": Case(
        INTS, "l = LessOrEqual (s, ke)  s2 = Where (l, s, ke)  y = Identity (s)", "c", SMALLEST, INTS
    ),
    "largest_gathered_anew": Case(
        ROW,
        "l0 = Gather <axis = 0> (x, i)  l = Greater (l0, s)  m = Gather <axis = 0> (x, i)  s2 = Where (l, m, s)",
        "b",
        LARGEST,
        scans=False,
    ),
    "largest_kept": Case(
        ROW, "l = Greater (s, e)  s2 = Where (l, s, e)  y = Identity (s2)", "b", LARGEST, ROW
    ),
    "largest_kept_unread": Case(
        ROW, "l = Less (e, s)  s2 = Where (l, s, e)", "b", LARGEST
    ),
    "smallest_kept_by_a_branch": Case(
        "float",
        "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = LessOrEqual (s, h)  "
        + _if("l", _kept("float", "s2"), "(float v) { v = Identity (h) }")
        + "  y = Identity (s)",
        "z",
        SMALLEST,
        "float",
    ),
    "last_where_not": Case(ROW, "m = Not (pe)  s2 = Where (m, s, e)  y = Identity (s2)", "b", LAST, ROW),
    "last_kept_where": Case(ROW, "s2 = Where (pe, s, e)", "b", LAST),
    "counts_of_elements": Case(
        INTS,
        f"""{TABLE}  q = GatherElements (s, at0)  u = Add (q, one1)  s2 = ScatterElements (s, at0, u)""",
        "c",
        "carried write by index",
    ),
    "table_joined_by_rows": Case(
        "float[R,4]",
        f"""{TABLE}  q = Gather <axis = 0> (s, t1)  u = Add (q, e)  v = Unsqueeze (u, zero1)
            at1 = Unsqueeze (at0, zero1)  s2 = ScatterND (s, at1, v)""",
        "start",
        "carried write by index",
    ),
    "first_by_a_branch_in_a_branch": Case(
        "int64",
        f"{ANY}  "
        + _if(
            "l",
            "(int64 v) { m = Less (s, zero)  "
            + _if("m", "(int64 w1) { w1 = Identity (i) }", _kept("int64", "v"), "v")
            + " }",
            _kept("int64", "s2"),
        )
        + "  y = Identity (s2)",
        "Neg (one)",
        "first iteration where a condition holds",
        "int64",
        scans=False,
    ),
    "first_by_a_script": Case(
        "int64",
        f"{ANY}  "
        + _if("l", "(bool n1) { n1 = Less (s, zero) }", "(bool n2) { n2 = Constant <value = bool {0}> () }", "g")
        + "  "
        + _if("g", "(int64 v) { v = Identity (i) }", _kept("int64", "s2")),
        "Neg (one)",
        "first iteration where a condition holds",
        scans=False,
    ),
    "first_as_tensorflow_writes_it": Case(
        "int64",
        f"{ANY}  "
        + _if(
            "l",
            "(bool n1) { d = Cast <to = 1> (s)  z0 = Constant <value = float {0}> ()  n1 = Less (d, z0) }",
            "(bool n2) { n2 = Identity (l) }",
            "g",
        )
        + "  "
        + _if("g", "(int64 v) { v = Identity (i) }", _kept("int64", "s2")),
        "Neg (one)",
        "first iteration where a condition holds",
        scans=False,
    ),
    "rows_at_a_range": Case(
        "float[R,4]",
        """i2 = Add (i, i)  i3 = Add (i2, one)  i4 = Add (i3, one)  q = Range (i2, i4, one)
            at1 = Unsqueeze (q, one1)  d = Unsqueeze (e, zero1)  d2 = Neg (d)
            u = Concat <axis = 0> (d, d2)  s2 = ScatterND (s, at1, u)""",
        "Concat <axis = 0> (x, w)",
        "carried write by index",
        scans=False,
        opset=13,
    ),
    "rows_of_some_slices": Case(
        "float[R,4]",
        f"{ANY}  "
        + _if(
            "l",
            """(float[Q,4] v) { a = Unsqueeze (i, zero1)  a2 = Add (a, one1)
                d = Slice (x, a, a2, zero1)  v = Concat <axis = 0> (s, d) }""",
            _kept("float[R,4]", "s2"),
        ),
        "start",
        "carried Concat under a condition",
        scans=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dialect"),
    [(n, d) for n, c in CASES.items() for d in DIALECTS if c.scans or d != "scan"],
)
def test_it_ends_without_a_loop(name: str, dialect: str) -> None:
    case = CASES[name]
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    many = [feeds(n, seed) for n in lengths for seed in range(2)]
    found = prove(case.text(dialect), *many, opset=case.opset)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    assert any(note.startswith(case.name) for note in decision.notes), decision.notes


@pytest.mark.parametrize(
    "name", ["two_levels", "sum_of_branches_in_branches", "counts_of_elements", "last_kept_where"]
)
def test_it_ends_without_a_loop_inside_of_another(name: str) -> None:
    case = CASES[name]
    text = nested(Case(case.state, case.body.split("  y =")[0], case.begin, "").text("counted"))
    prove(text, *(nested_feeds(*pair) for pair in [(0, 3), (2, 0), (3, 1), (2, 7)]))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        "largest_where_not",
        "last_where_not",
        "largest_gathered_anew",
        "largest_kept",
        "largest_kept_unread",
        "smallest_kept_by_a_branch",
    ],
)
def test_a_nan_or_an_infinity_does_what_it_does_in_the_loop(name: str) -> None:
    rng = np.random.default_rng(3)
    many = []
    for length in (1, 2, 7, 40) * 4:
        one = dict(feeds(length, len(many)))
        for key in ("x", "b"):
            spoilt = rng.choice([np.nan, np.inf, -np.inf], one[key].shape)
            is_spoilt = rng.random(one[key].shape) < 0.2
            one[key] = np.where(is_spoilt, spoilt, one[key]).astype(np.float32)
        many.append(one)
    prove(CASES[name].text("counted"), *many)


@pytest.mark.sampled
@pytest.mark.parametrize("compare", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize("spoilt", [False, True])
def test_the_number_of_the_best_so_far_is_known_of_all_iterations(
    compare: str, *, spoilt: bool
) -> None:
    text = f"""g (float[N] x, float first) => (float r, int64 w, int64[T] ws, int64[T2] vs) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        none = Constant <value = int64 {{-1}}> ()
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        r, w, ws, vs = Loop (n, t, first, none) <body = step
            (int64 i, bool cond, float s, int64 at) => (bool go, float s2, int64 at2, int64 a, int64 b) {{
            e = Gather <axis = 0> (x, i)  l = {compare} (e, s)
            s2 = Where (l, e, s)  at2 = Where (l, i, at)
            a = Identity (at)  b = Identity (at2)  go = Identity (cond)
        }}> }}"""
    rng, many = np.random.default_rng(1), []
    for length in LENGTHS * 3:
        x = np.round(rng.standard_normal(length) * 2).astype(np.float32)
        if spoilt and length:
            x[rng.integers(0, length)] = np.nan
        many.append({"x": x, "first": np.float32(np.nan if spoilt and length == 2 else 0)})
    prove(text, *many)


@pytest.mark.parametrize("family", ["Add", "Mul", "Max"])
def test_running_totals_of_halves(family: str) -> None:
    text = f"""g (float16[N,4] x, float16[4] b) => (float16[4] r, float16[T,4] ys) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        r, ys = Loop (n, t, b) <body = step (int64 i, bool cond, float16[4] s)
            => (bool go, float16[4] s2, float16[4] y) {{
            e = Gather <axis = 0> (x, i)  s2 = {family} (s, e)  y = Identity (s)
            go = Identity (cond)
        }}> }}"""
    rng = np.random.default_rng(2)
    many = [
        {
            "x": rng.integers(-1, 2, (length, 4)).astype(np.float16),
            "b": np.ones(4, np.float16),
        }
        for length in LENGTHS
    ]
    prove(text, *many)


def test_products_that_gemm_adds() -> None:
    text = """g (float[N,4] x, float[4,3] w, float[1,3] b) => (float[1,3] r, float[T,1,3] ys) {
        t = Constant <value = bool {1}> ()  zero = Constant <value = int64 {0}> ()
        zero1 = Constant <value = int64[1] {0}> ()
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        r, ys = Loop (n, t, b) <body = step (int64 i, bool cond, float[1,3] s)
            => (bool go, float[1,3] s2, float[1,3] y) {
            e = Gather <axis = 0> (x, i)  u = Unsqueeze (e, zero1)
            s2 = Gemm <alpha = 0.5, beta = 1.0> (u, w, s)  y = Identity (s2)
            go = Identity (cond)
        }> }"""
    rng = np.random.default_rng(2)
    shared = {
        key: rng.standard_normal(s).astype(np.float32) for key, s in (("w", (4, 3)), ("b", (1, 3)))
    }
    many = [{"x": rng.standard_normal((n, 4)).astype(np.float32), **shared} for n in LENGTHS]
    prove(text, *many)
    weighed = model(text.replace("beta = 1.0", "beta = 0.5"))
    found = read(weighed)
    assert [d.verdict for d in found.decisions] == [Verdict.FUSED]  # a linear recurrence
    assert same(weighed, found.model, *many) == len(many)


def test_factors_that_cancel_out_do_so_in_each_iteration() -> None:
    """All large factors together overflow, and all small ones vanish."""
    text = loop("counted", ROW, "u = Reciprocal (e)  v = Mul (s, e)  s2 = Mul (v, u)", "b")
    many = [{**feeds(n), "x": np.full((n, 4), 1e4, np.float32)} for n in LENGTHS]
    found = prove(text, *many)
    assert found.operators["ReduceProd"] == 1


READ = """g (int64[K] k, float[N,4] x, float[4] b) => (float[4] r) {
    zero = Constant <value = int64 {0}> ()  zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()  none = Constant <value = int64[0] {}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
    r = Loop (n, , b) <body = step (int64 i, bool cond, float[4] s) => (bool go, float[4] s2) {
        e = Gather <axis = 0> (x, i)  a = Unsqueeze (i, zero1)  a2 = Add (a, one1)
        q = Slice (k, a, a2, zero1)
        READ
        f = Cast <to = 1> (q0)  u = Mul (e, f)  s2 = Add (s, u)  go = Identity (cond)
    }> }"""


@pytest.mark.parametrize(
    ("reads", "loops"),
    [
        ("q0 = Squeeze (q, zero1)", 0),
        ("q1 = Concat <axis = 0> (q, one1)  q0 = Gather <axis = 0> (q1, zero)", 0),
    ],
)
def test_an_entry_that_is_cut_out_is_read_where_nothing_could_run_without_it(
    reads: str, loops: int
) -> None:
    before = model(READ.replace("READ", reads))
    found = read(before)
    assert found.loops == loops, found.details
    rng = np.random.default_rng(2)
    many = [
        {
            "k": rng.integers(-3, 3, n + more),
            "x": rng.standard_normal((n, 4)).astype(np.float32),
            "b": np.ones(4, np.float32),
        }
        for n in LENGTHS
        for more in (0, 2, -1)
        if n + more >= 0
    ]
    assert same(before, found.model, *many) >= 10


ELEMENTWISE = """l = Less (e, s)  s2 = Where (l, e, s)  at2 = Where (l, i, at)"""


def test_each_element_has_the_number_of_its_best() -> None:
    text = f"""g (float[N,4] x, float[4] b, int64[4] c) => (float[4] r, int64[4] w) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
        r, w = Loop (n, t, b, c) <body = step (int64 i, bool cond, float[4] s, int64[4] at)
            => (bool go, float[4] s2, int64[4] at2) {{
            e = Gather <axis = 0> (x, i)  {ELEMENTWISE}  go = Identity (cond)
        }}> }}"""
    rng = np.random.default_rng(6)
    many = [
        {
            "x": np.round(rng.standard_normal((n, 4))).astype(np.float32),
            "b": np.array([0, 1, -9, np.nan], np.float32),
            "c": np.arange(-4, 0),
        }
        for n in LENGTHS
    ]
    prove(text, *many)


MISSES = {
    "not_a_larger_one": (ROW, "l = Less (s, e)  d = Not (l)  m = Not (d)  u = Neg (s)  s2 = Where (m, e, u)", "b"),
    "a_cast_of_another_flag": (
        "bool",
        f"{ANY}  {LOW}  " + SHORTER.replace("u1 = Not (l)", "u1 = Not (l2)") + "  y = Identity (s2)",
        "Not (t)",
    ),
    "flag_by_its_number": (
        "bool",
        "q = Cast <to = 1> (s)  u = ReduceMax <axes = [0], keepdims = 0> (e)  d = Sub (u, q)  s2 = Greater (d, z)",
        "Not (t)",
    ),
    "condition_that_reads_the_sum": (
        ROW,
        "h = ReduceMax <axes = [0], keepdims = 0> (s)  l = Greater (h, z)  "
        + _if(
            "l",
            "(float[4] v) { " + _if("l", "(float[4] w1) { w1 = Add (s, e) }", _kept(ROW, "v"), "v") + " }",
            "(float[4] w2) { w2 = Sub (s, e) }",
        ),
        "b",
    ),
    "sum_and_square_in_branches": (
        ROW,
        f"{ANY}  {LOW}  "
        + _if(
            "l",
            "(float[4] v) { " + _if("l2", "(float[4] w1) { w1 = Add (s, e) }", _kept(ROW, "v"), "v") + " }",
            "(float[4] w2) { w2 = Mul (s, s) }",
        ),
        "b",
    ),
    "counts_of_elements_times_two": (
        INTS,
        f"{TABLE}  q = GatherElements (s, at0)  u = Add (q, q)  s2 = ScatterElements (s, at0, u)",
        "c",
    ),
    "counts_of_other_elements": (
        INTS,
        f"""{TABLE}  at1 = Sub (at0, one1)  q = GatherElements (s, at1)  u = Add (q, one1)
            s2 = ScatterElements (s, at0, u)""",
        "c",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSES)
def test_what_is_close_to_it_stays_a_loop(name: str) -> None:
    state, body, begin = MISSES[name]
    before = model(loop("counted", state, body, begin))
    found = read(before)
    assert found.loops == 1
    assert set(found.codes) == {"recurrence"}, found.details
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


TAKEN = {
    "last_row": "v = Gather <axis = 0> (w, i)",
    "total": "d = Gather <axis = 0> (w, i)  v = Add (s, d)",
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_row_of_a_shorter_tensor_is_read_where_it_is_taken(name: str) -> None:
    body = f"{ANY}  " + _if("l", f"(float[4] v) {{ {TAKEN[name]} }}", _kept(ROW, "s2"))
    rng, many = np.random.default_rng(7), []
    for length in LENGTHS:
        for rows in {length, length + 2, length // 2}:
            x = rng.standard_normal((length, 4)).astype(np.float32)
            x[rows:] = -np.abs(x[rows:])  # so that no row is read that is not there
            w = rng.standard_normal((rows, 4)).astype(np.float32)
            many.append(feeds(length, x=x, w=w, z=np.float32(0)))
    prove(loop("counted", ROW, body, "b"), *many)


HALVES = """g (float16[N,4] x, int64[N] at, float16[5,4] b) => (float16[5,4] r) {
    zero = Constant <value = int64 {0}> ()  zero1 = Constant <value = int64[1] {0}> ()
    pair = Constant <value = int64[2] {1, 1}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
    r = Loop (n, , b) <body = step (int64 i, bool cond, float16[5,4] s) => (bool go, float16[5,4] s2) {
        e = Gather <axis = 0> (x, i)  k = Gather <axis = 0> (at, i)  place = Reshape (k, pair)
        q = Gather <axis = 0> (s, k)  u = JOIN (q, e)  v = Unsqueeze (u, zero1)
        s2 = ScatterND (s, place, v)  go = Identity (cond)
    }> }"""


@pytest.mark.parametrize("join", ["Add", "Sub", "Mul", "Max", "Min"])
def test_halves_are_joined_at_places(join: str) -> None:
    """onnxruntime has no ScatterElements that joins them."""
    rng = np.random.default_rng(8)
    many = [
        {
            "x": rng.integers(-1, 2, (n, 4)).astype(np.float16),
            "at": rng.integers(0, 5, n),
            "b": rng.integers(-2, 3, (5, 4)).astype(np.float16),
        }
        for n in LENGTHS
    ]
    prove(HALVES.replace("JOIN", join), *many, opset=18)


COUNTED_BESIDE = """g (float[N,3,4] x, float[N] v, float[4] b) => (float[4] r, int64 c) {
    zero = Constant <value = int64 {0}> ()  three = Constant <value = int64 {3}> ()
    shape = Shape (x)  n = Gather <axis = 0> (shape, zero)
    r, c = Loop (n, , b, zero) <body = step (int64 i, bool cond, float[4] s, int64 many)
        => (bool go, float[4] s2, int64 many2) {
        row = Gather <axis = 0> (x, i)
        s2 = Loop (three, , s) <body = within (int64 j, bool on, float[4] t) => (bool on2, float[4] t2) {
            e = Gather <axis = 0> (row, j)  t2 = JOIN (t, e)  on2 = Identity (on)
        }>
        h = Gather <axis = 0> (v, i)  z = Constant <value = float {0}> ()
        l = Greater (h, z)  q = Cast <to = 7> (l)  many2 = Add (many, q)
        go = Identity (cond)
    }> }"""


@pytest.mark.parametrize("join", ["Add", "Max"])
def test_a_total_of_two_loops_beside_a_count(join: str) -> None:
    """The outer Loop is not split before the inner one has become a total."""
    rng = np.random.default_rng(9)
    many = [
        {
            "x": rng.standard_normal((n, 3, 4)).astype(np.float32),
            "v": rng.standard_normal(n).astype(np.float32),
            "b": np.zeros(4, np.float32),
        }
        for n in LENGTHS
    ]
    before = model(COUNTED_BESIDE.replace("JOIN", join))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *many) == len(many)


OLD = """g (float[N,4] x, int64 n, float[4] b) => (float[4] r, float[4] q, float[T,4] ys) {
    r, q, ys = Loop (n, , b, b) <body = step (int64 i, bool cond, float[4] s, float[4] p)
        => (bool go, float[4] s2, float[4] p2, float[4] y) {
        e = Gather <axis = 0> (x, i)
        d = Sub (e, p)  s2 = Max (s, d)  p2 = Identity (e)  y = Add (s, d)
        go = Identity (cond)
    }> }"""


@pytest.mark.parametrize("opset", [11, 12, 13])
def test_two_maps_and_a_number_that_is_given_at_old_opsets(opset: int) -> None:
    rng = np.random.default_rng(10)
    many = [
        {
            "x": rng.standard_normal((n + more, 4)).astype(np.float32),
            "n": np.int64(n),
            "b": rng.standard_normal(4).astype(np.float32),
        }
        for n in LENGTHS
        for more in (0, 2)
    ]
    found = prove(OLD, *many, opset=opset)
    onnx.checker.check_model(found.model, full_check=True)
