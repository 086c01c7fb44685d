"""Tensors that are read so far as they are written, where what is written does not depend on it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import rewrite
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.proof.compare import compare
from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds, loop
from tests.passes.carried.test_carried import Case
from tests.passes.loops import Read, model, read, same

ALL, GROWS, COLUMNS = "float[N,4]", "float[R,4]", "float[4,N]"
PLACE = "i1 = Unsqueeze (i, zero1)  at2 = Unsqueeze (i1, zero1)"
ROW = "u = Tanh (e)  u2 = Unsqueeze (u, zero1)"
WRITE = f"{PLACE}  {ROW}  s2 = ScatterND (s, at2, u2)"
APPEND = f"{ROW}  s2 = Concat <axis = 0> (s, u2)"
GREATEST = "y = ReduceMax <axes = [0], keepdims = 0> ({})"
ATTEND = """a = Unsqueeze (e, one1)  sc = MatMul ({0}, a)  pr = Softmax <axis = 0> (sc)
            pt = Transpose <perm = [1, 0]> (pr)  q = MatMul (pt, {0})  y = Squeeze (q, zero1)"""


def of(state: str, body: str, begin: str, name: str, collected: str = "float[4]") -> Case:
    """Return a loop that yields ``y`` too."""
    return Case(state, body, begin, name, collected=collected, scans="(i" not in body)


WRITTEN, JOINED = "carried write by index", "carried Concat"
CASES = {
    "behind_its_write": of(ALL, f"{WRITE}  {GREATEST.format('s2')}", "w", WRITTEN),
    "in_front_of_its_write": of(ALL, f"{WRITE}  {GREATEST.format('s')}", "w", WRITTEN),
    "on_both_sides": of(
        ALL, f"{WRITE}  d = Sub (s2, s)  g = Abs (d)  {GREATEST.format('g')}", "w", WRITTEN
    ),
    "attention": of(ALL, f"{WRITE}  {ATTEND.format('s2')}", "w", WRITTEN),
    "from_the_last_place": of(
        ALL,
        f"m = Sub (n, one)  j = Sub (m, i)  i1 = Unsqueeze (j, zero1)  at2 = Unsqueeze (i1, zero1)"
        f"  {ROW}  s2 = ScatterND (s, at2, u2)  d = Sub (s2, s)  g = Sum (d, s2)  "
        f"{GREATEST.format('g')}",
        "w",
        WRITTEN,
    ),
    "every_second_place": of(
        "float[M,4]",
        f"two = Constant <value = int64 {{2}}> ()  j = Mul (i, two)  i1 = Unsqueeze (j, zero1)  "
        f"at2 = Unsqueeze (i1, zero1)  {ROW}  s2 = ScatterND (s, at2, u2)  g = Sub (s2, s)  "
        f"h = Sub (g, s)  {GREATEST.format('h')}",
        "Concat <axis = 0> (w, w)",
        WRITTEN,
    ),
    "behind_other_rows": of(
        "float[M,4]",
        f"three = Constant <value = int64 {{3}}> ()  j = Add (i, three)  "
        f"i1 = Unsqueeze (j, zero1)  at2 = Unsqueeze (i1, zero1)  {ROW}  "
        f"s2 = ScatterND (s, at2, u2)  {GREATEST.format('s2')}",
        "Concat <axis = 0> (start, w)",
        WRITTEN,
    ),
    "columns": of(
        COLUMNS,
        f"{PLACE}  u = Tanh (e)  u2 = Unsqueeze (u, one1)  sh = Shape (u2)  "
        "k2 = Expand (at2, sh)  s2 = ScatterElements <axis = 1> (s, k2, u2)  "
        "y = ReduceMax <axes = [1], keepdims = 0> (s2)",
        "Transpose <perm = [1, 0]> (w)",
        WRITTEN,
    ),
    "a_window": of(
        ALL,
        f"{WRITE}  three = Constant <value = int64[1] {{3}}> ()  lo = Sub (i1, three)  "
        "lo0 = Max (lo, zero1)  hi = Add (i1, one1)  v = Slice (s2, lo0, hi, zero1)  "
        f"{GREATEST.format('v')}",
        "w",
        WRITTEN,
    ),
    "all_so_far": of(
        ALL,
        f"{WRITE}  hi = Add (i1, one1)  v = Slice (s2, zero1, hi, zero1)  {ATTEND.format('v')}",
        "w",
        WRITTEN,
    ),
    "the_row_before_and_all": of(
        ALL,
        f"{WRITE}  j = Sub (i, one)  p9 = Gather <axis = 0> (s, j)  g = Add (s2, p9)  "
        f"{GREATEST.format('g')}",
        "w",
        WRITTEN,
    ),
    "a_place_of_each_iteration": of(
        ALL,
        f"{WRITE}  k4 = ReduceMax <axes = [0], keepdims = 0> (ke)  ab = Abs (k4)  "
        "i9 = Add (i, one)  pl = Mod (ab, i9)  y = Gather <axis = 0> (s2, pl)",
        "w",
        WRITTEN,
    ),
    "appended_behind": of(GROWS, f"{APPEND}  {GREATEST.format('s2')}", "start", JOINED),
    "a_column_appended_and_read_beside_all": of(
        "float[4,R]",
        "u = Tanh (e)  u2 = Unsqueeze (u, one1)  s2 = Concat <axis = 1> (s, u2)  "
        "g = ReduceMax <axes = [1], keepdims = 0> (s2)  y = Sub (g, u)",
        "Transpose <perm = [1, 0]> (start)",
        JOINED,
    ),
    "appended_in_front": of(GROWS, f"{APPEND}  {GREATEST.format('s')}", "start", JOINED),
    "attention_to_appended": of(GROWS, f"{APPEND}  {ATTEND.format('s2')}", "start", JOINED),
    "causal_attention": of(
        GROWS,
        f"{APPEND}  e1 = Unsqueeze (e, zero1)  kt = Transpose <perm = [1, 0]> (s2)  "
        "sc = MatMul (e1, kt)  pr = Softmax <axis = -1> (sc)  q = MatMul (pr, s2)  "
        "y = Squeeze (q, zero1)",
        "start",
        JOINED,
    ),
    "appended_to_nothing": of(
        GROWS,
        f"{APPEND}  {GREATEST.format('s2')}",
        "Slice (start, zero1, zero1, zero1)",
        JOINED,
    ),
    "two_appended": of(
        GROWS,
        f"{ROW}  v2 = Neg (u2)  s2 = Concat <axis = 0> (s, u2, v2)  {GREATEST.format('s2')}",
        "start",
        JOINED,
    ),
    "piece_appended": of(
        GROWS,
        f"{ROW}  v2 = Concat <axis = 0> (u2, u2)  h = Mul (v2, v2)  "
        f"s2 = Concat <axis = 0> (s, h)  {GREATEST.format('s2')}",
        "start",
        JOINED,
    ),
    "mean_so_far": of(
        GROWS, f"{APPEND}  y = ReduceMean <axes = [0], keepdims = 0> (s2)", "start", JOINED
    ),
    "how_many_so_far": of(
        GROWS,
        f"{APPEND}  h = Shape (s2)  l = Gather <axis = 0> (h, zero)  f4 = Cast <to = 1> (l)  "
        "y = Mul (e, f4)",
        "start",
        JOINED,
    ),
    "median_so_far": of(
        GROWS,
        f"{APPEND}  h = Shape (s2)  l = Gather <axis = 0> (h, zero)  l1 = Unsqueeze (l, zero1)  "
        "v, o = TopK <axis = 0> (s2, l1)  two = Constant <value = int64 {2}> ()  "
        "mid = Div (l, two)  y = Gather <axis = 0> (v, mid)",
        "start",
        JOINED,
    ),
}
PORTABLE = {"lacks": frozenset({"Loop", "If", "Scan"})}
DIALECTS = ["counted", "endless", "while"]
TABLE = [(name, dialect) for name in CASES for dialect in DIALECTS]


def rewritten(before: onnx.ModelProto, **options: object) -> Read:
    """Rewrite a model, and compare what it computes for every number of iterations."""
    found = read(before, **options)
    ran = same(before, found.model, *(feeds(length) for length in LENGTHS))
    assert ran >= len(LENGTHS) - 2, "the model fails as it was"  # an extreme of nothing
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "dialect"), TABLE)
def test_what_is_read_is_known_in_front(name: str, dialect: str) -> None:
    """A pattern ends without a loop where a target has none, and with one for many otherwise."""
    case = CASES[name]
    before = model(case.text(dialect), case.opset)
    found = rewritten(before, **PORTABLE)
    assert not found.loops, found.details
    notes = " ".join(note for one in found.decisions for note in one.notes)
    assert case.name in notes
    assert "nothing asks what that takes" in notes
    assert "the number of iterations x the size" in notes or name == "causal_attention"
    found = rewritten(before)
    notes = " ".join(note for one in found.decisions for note in one.notes)
    assert "where that takes much, they run in one loop" in notes or name == "causal_attention"


def test_a_scan() -> None:
    """A Scan has no number of the iteration: it counts for itself."""
    text = f"""g ({INPUTS}) => (int64 last, float[N,4] r, float[T,4] ys) {{ {SCALARS}
        last, r, ys = Scan <body = step (int64 i, float[N,4] s, float[4] e)
            => (int64 i2, float[N,4] s2, float[4] y) {{
            {WRITE}  {ATTEND.format("s2")}  i2 = Add (i, one)
        }}, num_scan_inputs = 1> (zero, w, x)
    }}"""
    assert not rewritten(model(text), **PORTABLE).loops


def test_no_iteration_spoils_another() -> None:
    """A NaN or an infinity is seen from its iteration on, and not before."""
    before = model(CASES["all_so_far"].text("counted"))
    found = read(before, **PORTABLE)
    for value in (np.nan, np.inf, -np.inf):
        given = dict(feeds(7))
        given["x"][3, 1] = given["w"][5, 2] = value
        assert same(before, found.model, given) == 1


TWO_CACHES = f"""g ({INPUTS}) => (float[N,4] ks, float[N,4] vs, float[T,4] ys) {{ {SCALARS} {COUNT}
        ks, vs, ys = Loop (n, t, w, w) <body = step (int64 i, bool c, float[N,4] k1, float[N,4] v1)
            => (bool go, float[N,4] k2, float[N,4] v2, float[4] y) {{
            go = Identity (c)  e = Gather <axis = 0> (x, i)
            {PLACE}  {ROW}  k2 = ScatterND (k1, at2, u2)
            {{value}}
            v2 = ScatterND (v1, at2, r)
            a = Unsqueeze (e, one1)  sc = MatMul (k2, a)  pr = Softmax <axis = 0> (sc)
            pt = Transpose <perm = [1, 0]> (pr)  q = MatMul (pt, v2)  y = Squeeze (q, zero1)
        }}>
    }}"""


@pytest.mark.parametrize(
    "value",
    ["r = Neg (u2)", "r = ReduceMax <axes = [0], keepdims = 1> (k2)"],
    ids=["side_by_side", "one_of_the_other"],
)
def test_two_tensors(value: str) -> None:
    """Keys and values; and values that are made of the keys so far, in layers."""
    before = model(TWO_CACHES.replace("{value}", value))
    assert not rewritten(before, **PORTABLE).loops


def test_two_tensors_of_each_other() -> None:
    """What is written to each depends on the past of the other."""
    text = TWO_CACHES.replace("k2 = ScatterND (k1, at2, u2)", "").replace(
        "{value}",
        """m = ReduceMax <axes = [0], keepdims = 1> (v1)  u3 = Mul (u2, m)
            k2 = ScatterND (k1, at2, u3)  r = ReduceMax <axes = [0], keepdims = 1> (k1)""",
    )
    before = model(text)
    found = rewritten(before)
    assert found.loops == 1
    assert "each depends on the past of another" in found.details


MOD = "two = Constant <value = int64 {2}> ()  j = Mod (i, two)  i1 = Unsqueeze (j, zero1)"
AGAIN = f"{MOD}  at2 = Unsqueeze (i1, zero1)  {ROW}  s2 = ScatterND (s, at2, u2)"
MISSES = {
    "written_of_what_is_read": (
        ALL,
        f"{PLACE}  m = ReduceMax <axes = [0], keepdims = 1> (s)  {ROW}  r = Add (u2, m)  "
        f"s2 = ScatterND (s, at2, r)  {GREATEST.format('s2')}",
        "w",
        "reads it by ReduceMax",
    ),
    "a_place_twice": (ALL, f"{AGAIN}  {GREATEST.format('s2')}", "w", "reads it by ReduceMax"),
    "under_a_condition": (
        ALL,
        f"{WRITE.replace('s2 =', 's1 =')}  f1 = Gather <axis = 0> (pe, zero)  "
        f"s2 = Where (f1, s1, s)  {GREATEST.format('s2')}",
        "w",
        "",
    ),
    "two_writes_with_a_read_between": (
        ALL,
        f"{PLACE}  {ROW}  s1 = ScatterND (s, at2, u2)  {GREATEST.format('s1')}  "
        "v2 = Neg (u2)  z2 = Unsqueeze (zero1, zero1)  s2 = ScatterND (s1, z2, v2)",
        "w",
        "reads it by ReduceMax",
    ),
    "appended_of_what_is_read": (
        GROWS,
        f"{ROW}  m = ReduceMax <axes = [0], keepdims = 1> (s)  r = Add (u2, m)  "
        "s2 = Concat <axis = 0> (s, r)  y = Identity (e)",
        "start",
        "depends on its own past",
    ),
    "another_number_of_rows_each_time": (
        GROWS,
        f"""{ROW}  z1 = Gather <axis = 0> (ke, zero)  ab = Abs (z1)  rp = Unsqueeze (ab, zero1)
            rq = Concat <axis = 0> (rp, one1)  r = Tile (u2, rq)
            s2 = Concat <axis = 0> (s, r)  {GREATEST.format("s2")}""",
        "start",
        "another number of rows in each iteration",
    ),
    "added_to": (
        ALL,
        f'{PLACE}  {ROW}  s2 = ScatterND <reduction = "add"> (s, at2, u2)  '
        f"{GREATEST.format('s2')}",
        "w",
        "reads it by ReduceMax",
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_stay_loops(name: str) -> None:
    """What is read would depend on more than what is written, or is written more than once."""
    state, body, begin, why = MISSES[name]
    before = model(loop("counted", state, body, begin, collected="float[4]"))
    result = rewrite(before, strategy="fuse")
    assert result.report.after.by_type["Loop"] == 1
    reasons = [reason for one in result.report.decisions for reason in one.reasons]
    assert why in " ".join(reason.detail for reason in reasons)
    assert same(before, result.model, *map(feeds, LENGTHS))


def test_an_early_exit_stays_a_loop() -> None:
    """How many iterations there are depends on what is read."""
    text = CASES["behind_its_write"].text("counted")
    text = text.replace(
        "go = Identity (cond)",
        "g9 = ReduceMax <keepdims = 0> (y)  l9 = Less (g9, z)  go = And (l9, cond)",
    )
    found = rewritten(model(text))
    assert found.loops == 1
    assert "early-exit" in found.codes


def test_auto_takes_writes_and_keeps_what_grows() -> None:
    """A form that is about as fast as the Loop is left to ``fuse``, and said so."""
    before = model(CASES["attention"].text("counted"))
    report = rewrite(before).report
    assert "where that takes much" in " ".join(report.decisions[0].notes)
    before = model(CASES["attention_to_appended"].text("counted"))
    report = rewrite(before).report
    reason = report.decisions[0].reasons[0]
    assert reason.code == "reads-earlier-result"
    assert "a loop is about as fast" in reason.detail
    assert "--strategy fuse" in reason.advice
    result = rewrite(model(CASES["causal_attention"].text("counted")))
    assert result.report.decisions[0].verdict == "fused"


@pytest.mark.parametrize(
    ("rows", "strategy", "loops"), [(64, "auto", 0), (512, "auto", 1), (512, "fuse", 0)]
)
def test_known_sizes_are_asked_before(rows: int, strategy: str, loops: int) -> None:
    """Where sizes are known there is no If: the Loop stays, or it does not."""
    text = CASES["attention"].text("counted").replace("[N,4]", f"[{rows},4]")
    result = rewrite(model(text), strategy=strategy)
    types = result.report.after.by_type
    assert types.get("Loop", 0) == loops
    assert not types.get("If", 0)
    if loops:
        reason = result.report.decisions[0].reasons[0]
        assert f"takes {rows * rows * 4:,} numbers" in reason.detail


def test_the_evaluator_agrees() -> None:
    """A body may declare falsely that no rows are there so far, which onnxruntime believes."""
    text = CASES["median_so_far"].text("counted").replace("float[R,4] s)", "float[3,4] s)")
    before = model(text)
    after = read(before, **PORTABLE).model
    for length in LENGTHS:
        given = feeds(length)
        expected, found = (ReferenceEvaluator(m).run(None, given) for m in (before, after))
        for one, other in zip(expected, found, strict=True):
            assert compare({"y": one}, {"y": other}).equal


@pytest.mark.parametrize(("dtype", "code"), [("bool", 9), ("int16", 5), ("uint8", 2)])
def test_types_without_where(dtype: str, code: int) -> None:
    """What onnxruntime has no Where of is picked in another way."""
    body = f"""{PLACE}  u = Cast <to = {code}> (e)  u2 = Unsqueeze (u, zero1)
        s2 = ScatterND (s, at2, u2)  h = Cast <to = 1> (s2)  {GREATEST.format("h")}"""
    first = f"Cast <to = {code}> (w)"
    text = loop("counted", f"{dtype}[N,4]", body, first, collected="float[4]")
    assert not rewritten(model(text), **PORTABLE).loops
