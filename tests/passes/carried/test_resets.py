"""Carried values that begin anew where a condition holds: last values and totals since then."""

from __future__ import annotations

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import DIALECTS, LENGTHS, feeds, loop, nested, nested_feeds
from tests.passes.carried.test_carried import FLAGS, INTS, ROW, Case
from tests.passes.loops import model, prove, read, same

LAST = "last value where a condition holds"
ANY = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
NEGATIVE = "h2 = ReduceMin <axes = [0], keepdims = 0> (e)  l2 = Less (h2, z)"


def _totals(op_type: str, state: str, row: str, begin: str, name: str, opset: int = 17) -> Case:
    body = f"u = {op_type} (s, {row})  s2 = Where (pe, {row}, u)  y = Identity (s2)"
    return Case(state, body, begin, f"carried {name} that begins anew", state, opset=opset)


CASES = {
    "forward_fill": Case(ROW, "s2 = Where (pe, e, s)  y = Identity (s2)", "b", LAST, ROW),
    "forward_fill_before": Case(ROW, "s2 = Where (pe, e, s)  y = Identity (s)", "b", LAST, ROW),
    "forward_fill_of_rows": Case(
        ROW, f"{ANY}  s2 = Where (l, e, s)  y = Identity (s2)", "b", LAST, ROW
    ),
    "forward_fill_of_numbers": Case(
        "int64",
        f"{ANY}  s2 = Where (l, i, s)  y = Identity (s2)",
        "Neg (one)",
        LAST,
        "int64",
        scans=False,
    ),
    "forward_fill_of_flags": Case(
        FLAGS,
        f"{ANY}  s2 = If (l) <then_branch = yes () => (bool[4] v) {{ v = Not (pe) }},"
        "else_branch = no () => (bool[4] v2) { v2 = Identity (s) }>  y = Identity (s2)",
        "f",
        LAST,
        FLAGS,
    ),
    "two_thresholds": Case(
        ROW,
        f"{ANY}  {NEGATIVE}  u = Where (l2, b, s)  s2 = Where (l, e, u)  y = Tanh (s)",
        "b",
        LAST,
        ROW,
    ),
    "two_thresholds_unread": Case(
        INTS, f"{ANY}  u = Where (pe, s, c)  s2 = Where (l, ke, u)", "c", LAST
    ),
    "run_times_1_less_a_flag": Case(
        "int64",
        f"{ANY}  q7 = Cast <to = 7> (l)  one_like = CastLike (one, s)  u = Add (s, one_like)"
        "  k1 = Constant <value = int64 {1}> ()  w7 = Sub (k1, q7)  s2 = Mul (u, w7)"
        "  y = Identity (s2)",
        "one",
        "carried sum that begins anew",
        "int64",
    ),
    "run_times_a_flag_less_1": Case(
        "int64",
        f"{ANY}  q7 = Cast <to = 7> (l)  one_like = CastLike (one, s)  u = Add (s, one_like)"
        "  k1 = Constant <value = int64 {1}> ()  m7 = Neg (q7)  w7 = Add (m7, k1)"
        "  s2 = Mul (u, w7)  y = Identity (s2)",
        "one",
        "carried sum that begins anew",
        "int64",
    ),
    "run_times_a_cast_1_less_a_flag": Case(
        "int64",
        f"{ANY}  q7 = Cast <to = 7> (l)  one_like = CastLike (one, s)  u = Add (s, one_like)"
        "  k1 = Constant <value = float {1}> ()  k1_like = CastLike (k1, q7)"
        "  w7 = Sub (k1_like, q7)  s2 = Mul (u, w7)  y = Identity (s2)",
        "one",
        "carried sum that begins anew",
        "int64",
    ),
    "run_times_a_flag": Case(
        "int64",
        f"{ANY}  q7 = Cast <to = 7> (l)  one_like = CastLike (one, s)  u = Add (s, one_like)"
        "  s2 = Mul (u, q7)  y = Identity (s2)",
        "one",
        "carried sum that begins anew",
        "int64",
    ),
    "run_of_rows_times_a_flag": Case(
        INTS,
        "q7 = Cast <to = 7> (pe)  u = Add (s, ke)  s2 = Mul (q7, u)  y = Identity (s2)",
        "c",
        "carried sum that begins anew",
        INTS,
    ),
    "since_an_event": Case(
        "int64",
        f"{ANY}  m = Shape (s)  q = ConstantOfShape (m)  q7 = Cast <to = 7> (q)  u = Add (s, one)"
        "  s2 = Where (l, q7, u)  y = Identity (s2)",
        "one",
        "carried sum that begins anew",
        "int64",
    ),
    "sums": _totals("Add", ROW, "e", "b", "sum"),
    "sums_of_integers": _totals("Add", INTS, "ke", "c", "sum"),
    "sums_unread": Case(
        INTS, "u = Add (s, ke)  s2 = Where (pe, c, u)", "c", "carried sum that begins anew"
    ),
    "differences": _totals("Sub", INTS, "ke", "c", "sum"),
    "products": _totals("Mul", ROW, "e", "b", "product"),
    "largest": _totals("Max", ROW, "e", "b", "maximum"),
    "smallest": _totals("Min", INTS, "ke", "c", "minimum"),
    "bits": _totals("BitwiseXor", INTS, "ke", "c", "bitwise xor", 18),
    "reset_before_it_adds": Case(
        ROW,
        "d = Sub (z, z)  u = Where (pe, d, s)  s2 = Add (u, e)  y = Identity (s2)",
        "b",
        "carried sum that begins anew",
        ROW,
    ),
    "reset_of_whole_rows": Case(
        ROW,
        f"{ANY}  u = Sub (s, e)  v = Add (h, u)  s2 = Where (l, e, v)  y = Identity (s)",
        "b",
        "carried sum that begins anew",
        ROW,
    ),
    "reset_in_a_branch": Case(
        ROW,
        f"""{ANY}  s2 = If (l) <
            then_branch = yes () => (float[4] v) {{ v = Mul (e, b) }},
            else_branch = no () => (float[4] v2) {{ d = Tanh (e)  v2 = Add (s, d) }}>
            y = Identity (s2)""",
        "b",
        "carried sum that begins anew",
        ROW,
    ),
    "any_since": Case(
        FLAGS,
        f"""{ANY}  s2 = If (l) <
            then_branch = yes () => (bool[4] v) {{ v = Identity (pe) }},
            else_branch = no () => (bool[4] v2) {{ v2 = Or (s, pe) }}>  y = Identity (s2)""",
        "f",
        "carried disjunction that begins anew",
        FLAGS,
    ),
}


@pytest.mark.parametrize(
    ("name", "dialect"),
    [(n, d) for n, c in CASES.items() for d in DIALECTS if c.scans or d != "scan"],
)
def test_it_ends_without_a_loop(name: str, dialect: str) -> None:
    case = CASES[name]
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    found = prove(case.text(dialect), *map(feeds, lengths), opset=case.opset)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    assert any(note.startswith(case.name) for note in decision.notes), decision.notes


@pytest.mark.parametrize(
    ("name", "op_type", "count"),
    [("forward_fill", "Compress", 1), ("sums_of_integers", "CumSum", 2), ("largest", "If", 5)],
)
def test_the_last_value_is_read_from_those_of_all_iterations(
    name: str, op_type: str, count: int
) -> None:
    found = read(model(CASES[name].text("counted")))
    assert found.operators[op_type] == count


@pytest.mark.parametrize("name", ["forward_fill", "sums", "largest", "reset_before_it_adds"])
def test_a_nan_or_an_infinity_ends_where_it_begins_anew(name: str) -> None:
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


def test_sums_of_integers_that_overflow_are_those_of_the_loop() -> None:
    rng, many = np.random.default_rng(4), []
    for length in (1, 7, 64):
        one = dict(feeds(length))
        one["k"] = rng.integers(-(1 << 62), 1 << 62, (length, 4))
        many.append(one)
    prove(CASES["sums_of_integers"].text("counted"), *many)


@pytest.mark.parametrize("name", ["since_an_event", "sums_unread", "two_thresholds_unread"])
def test_it_ends_without_a_loop_inside_of_another(name: str) -> None:
    case = CASES[name]
    text = nested(Case(case.state, case.body.split("  y =")[0], case.begin, "").text("counted"))
    pairs = [(0, 3), (2, 0), (3, 1), (2, 7)]
    prove(text, *(nested_feeds(*pair) for pair in pairs))


@pytest.mark.parametrize("name", ["sums", "products", "largest", "since_an_event", "forward_fill"])
def test_exact_keeps_what_would_round_in_another_order(name: str) -> None:
    found = read(model(CASES[name].text("counted")), exact=True)
    assert bool(found.loops) == (name in ("sums", "products"))


MISSES = {
    "condition_that_reads_it": "l = Greater (s, e)  s2 = Where (l, b, s)  y = Identity (s2)",
    "reset_to_what_it_was": "u = Abs (s)  d = Add (s, e)  s2 = Where (pe, u, d)",
    "two_ways_to_go_on": "u = Add (s, e)  d = Max (s, e)  s2 = Where (pe, u, d)",
    "sum_and_product": "u = Add (s, e)  v = Mul (u, e)  s2 = Where (pe, e, v)",
    "weighed_by_a_flag": "q = Cast <to = 1> (pe)  u = Mul (s, q)  v = Add (u, e)  s2 = Tanh (v)",
    "what_it_was_in_a_branch": """d = Tanh (s)
        h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)  s2 = If (l) <
            then_branch = yes () => (float[4] v) { v = Mul (e, b) },
            else_branch = no () => (float[4] v2) { d2 = Neg (d)  v2 = Add (s, d2) }>""",
}


@pytest.mark.parametrize("name", MISSES)
def test_what_is_close_to_it_stays_a_loop(name: str) -> None:
    body = MISSES[name]
    case = Case(ROW, body, "b", "", collected=ROW if " y = " in body else "")
    before = model(case.text("counted"))
    found = read(before)
    assert found.loops == 1
    assert set(found.codes) == {"recurrence"}, found.details
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


GROWS = {
    "by its flags": ("p1 = Unsqueeze (pe, zero1)  s2 = Where (p1, e, s)", "b", "float[R,4]"),
    "by what it begins anew with": (
        "e1 = Unsqueeze (e, zero1)  s2 = Where (pe, e1, s)",
        "b",
        "float[R,4]",
    ),
    "by flags of an element each": ("s2 = Where (pe, z, s)", "z", ROW),
    "by rows where a number was": (f"{ANY}  s2 = Where (l, e, s)", "z", ROW),
    "by what is added": (f"{ANY}  u = Add (s, e)  s2 = Where (l, e, u)", "z", ROW),
    "by flags of what is added": ("u = Add (s, z)  s2 = Where (pe, z, u)", "z", ROW),
}


@pytest.mark.quick
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("collects", [False, True], ids=["its end", "all"])
@pytest.mark.parametrize("name", GROWS)
def test_what_grows_in_known_iterations_stays_a_loop(
    name: str, collects: bool, count: int
) -> None:
    body, begin, result = GROWS[name]
    body, collected = (f"{body}  y = Identity (s2)", result) if collects else (body, "")
    text = loop("counted", "float[]", body, begin, result=result, collected=collected)
    before = model(text.replace("float[N,4] x", f"float[{count},4] x"))
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, feeds(count), feeds(count, 1)) == 2


def test_what_is_multiplied_by_2_less_a_flag_does_not_begin_anew() -> None:
    body = """q7 = Cast <to = 7> (pe)  u = Add (s, ke)  k2 = Constant <value = int64 {2}> ()
        w7 = Sub (k2, q7)  s2 = Mul (u, w7)"""
    before = model(Case(INTS, body, "c", "").text("counted"))
    found = read(before)
    (decision,) = found.decisions
    assert [note.split(" '")[0] for note in decision.notes[1:]] == ["linear recurrence"]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


LONGEST = """g (float[N] x, float[4] b) => (float r, float[4] q) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    none = Constant <value = float {0}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    last, r, q = Loop (n, t, none, none, b) <body = step
        (int64 i, bool cond, float s, float most, float[4] w)
        => (bool go, float s2, float most2, float[4] w2)
        <float level = {0.3}, float one = {1}> {
        e = Gather <axis = 0> (x, i)
        over = Greater (e, level)
        more = Add (s, one)
        s2 = Where (over, more, level)
        most2 = Max (most, s2)
        w2 = Mul (w, level)
        go = Identity (cond)
    }>
}"""


def test_two_maps_read_one_initializer_of_the_body() -> None:
    rng = np.random.default_rng(5)
    many = [
        {"x": rng.random(n).astype(np.float32), "b": rng.random(4).astype(np.float32)}
        for n in LENGTHS
    ]
    before = model(LONGEST)
    assert same(before, read(before).model, *many) == len(many)


def test_a_condition_that_stands_in_a_branch() -> None:
    """``if a: on = True  elif b: on = False``, as TorchScript writes it."""
    body = f"""{ANY}  h2 = ReduceMin <axes = [0], keepdims = 0> (e)  yes = Identity (t)
            s2 = If (l) <
                then_branch = one () => (bool v1) {{ v1 = Identity (yes) }},
                else_branch = other () => (bool v2) {{
                    l2 = Less (h2, z)  l3 = Cast <to = 9> (l2)
                    v2 = If (l3) <
                        then_branch = low () => (bool v3) {{ v3 = Not (yes) }},
                        else_branch = keep () => (bool v4) {{ v4 = Identity (s) }}> }}>
            y = Identity (s2)"""
    case = Case("bool", body, "Not (t)", LAST, "bool", scans=False)
    for dialect in ("counted", "endless", "while"):
        before = model(case.text(dialect))
        found = read(before)
        assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
        assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
