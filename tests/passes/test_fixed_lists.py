"""Lists that a Loop carries and that have one length in all iterations: rings, windows, states."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Verdict
from tests.passes.loops import model, same

LENGTHS = [0, 1, 2, 7, 64]
RING = "at = Mod (i, three)  less = SequenceErase (had, at)  has = SequenceInsert (less, v, at)"
STACK = "w = ConcatFromSequence <axis = 0, new_axis = 1> ({})  y = ReduceSum <keepdims = 0> (w, o)"
MOVED = "more = SequenceInsert (had, v)  has = SequenceErase (more, zero)"
SETS = "l1 = SequenceErase (had, one)  has = SequenceInsert (l1, v, one)"

SET = "less = SequenceErase (had, at)  has = SequenceInsert (less, u, at)"
LISTS = {
    "totals in turn": f"at = Mod (i, three)  old = SequenceAt (had, at)  u = Add (old, e)  {SET}  y = Identity (v)",
    "extremes in turn": f"at = Mod (i, three)  old = SequenceAt (had, at)  u = Max (e, old)  {SET}  y = Identity (v)",
    "written, then joined": f"{RING}  w = ConcatFromSequence <axis = 0> (has)  w1 = Slice (w, o, four)  y = Neg (w1)",
    "written in turn": f"{RING}  y = Identity (v)",
    "read, then written": f"at1 = Mod (i, three)  old = SequenceAt (had, at1)  y = Sub (e, old)  {RING}",
    "written, then read": f"{RING}  nxt = Add (i, one)  at1 = Mod (nxt, three)  old = SequenceAt (has, at1)  y = Sub (e, old)",
    "written, then summed": f"{RING}  {STACK.format('has')}",
    "counted by the list": "k = SequenceLength (had)  at = Mod (i, k)  less = SequenceErase (had, at)  has = SequenceInsert (less, v, at)  y = Identity (v)",
    "moves on": f"{MOVED}  {STACK.format('had')}",
    "moves on, joined": f"{MOVED}  w = ConcatFromSequence <axis = 0> (has)  w1 = Slice (w, o, four)  y = Neg (w1)",
    "first taken, then added": "old = SequenceAt (had, zero)  less = SequenceErase (had, zero)"
    "  has = SequenceInsert (less, v)  y = Sub (e, old)",
    "last taken, then in front": "old = SequenceAt (had, last)  less = SequenceErase (had)"
    "  has = SequenceInsert (less, v, zero)  y = Sub (e, old)",
    "one element set": f"{SETS}  y = SequenceAt (had, one)",
    "set from the end": "p = Constant <value = int64 {-2}> ()  less = SequenceErase (had, p)"
    "  has = SequenceInsert (less, v, one)  y = SequenceAt (has, p)",
    "made anew": "a = SequenceAt (had, one)  b2 = SequenceAt (had, two)"
    "  has = SequenceConstruct (a, b2, v)  y = SequenceAt (had, zero)",
    "made anew, one by one": "a = SequenceAt (had, two)  none = SequenceEmpty <dtype = 1> ()"
    "  l1 = SequenceInsert (none, v)  l2 = SequenceInsert (l1, a)  a2 = SequenceAt (had, zero)"
    "  has = SequenceInsert (l2, a2)  y = Identity (a)",
    "totals": "a = SequenceAt (had, zero)  a2 = Add (a, e)  b2 = SequenceAt (had, one)"
    "  c2 = Max (b2, e)  d2 = SequenceAt (had, two)  has = SequenceConstruct (a2, c2, d2)  y = Sub (e, d2)",
    "elements that a list gained": "more = SequenceInsert (had, v)  a = SequenceAt (more, last)"
    "  p = Constant <value = int64 {-2}> ()  b2 = SequenceAt (more, p)  y = Sub (a, b2)"
    "  has = SequenceErase (more, zero)",
}


def text(
    body: str, begin: str = "SequenceConstruct (b, x0, b)", end: str = "seq(float[4]) all"
) -> str:
    stacked = (
        "" if end.startswith("seq") else "r = ConcatFromSequence <axis = 0, new_axis = 1> (all)"
    )
    return f"""g (float[N,4] x, float[4] b) => (float[N,4] ys, {end}) {{
        t = Constant <value = bool {{1}}> ()  zero = Constant <value = int64 {{0}}> ()
        one = Constant <value = int64 {{1}}> ()  two = Constant <value = int64 {{2}}> ()
        three = Constant <value = int64 {{3}}> ()  last = Constant <value = int64 {{-1}}> ()
        o = Constant <value = int64[1] {{0}}> ()  four = Constant <value = int64[1] {{4}}> ()
        x0 = Neg (b)  start = {begin}
        n = Shape <start = 0, end = 1> (x)  count = Squeeze (n)
        all, ys = Loop (count, t, start) <body = step (int64 i, bool more1, seq(float[4]) had)
            => (bool on, seq(float[4]) has, float[4] y) {{
            on = Identity (more1)  e = Gather <axis = 0> (x, i)  v = Tanh (e)
            {body}
        }}>
        {stacked}
    }}"""


def feeds(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((count, 4)).astype(np.float32)
    if count > 2:
        x[count // 2, 0], x[count // 3, 1] = np.nan, np.inf
    return {"x": x, "b": rng.standard_normal(4).astype(np.float32)}


@pytest.mark.parametrize("end", ["seq(float[4]) all", "float[P,4] r"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_one_length_needs_no_loop(name: str, end: str) -> None:
    before = model(text(LISTS[name], end=end))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert {one.verdict for one in result.report.decisions} == {Verdict.FUSED}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_one_length_needs_no_control_flow(name: str) -> None:
    before = model(text(LISTS[name], end="float[P,4] r"))
    after = rewriter.optimize(before, target="portable")
    assert isinstance(after, onnx.ModelProto)
    assert same(before, after, *map(feeds, LENGTHS)) == len(LENGTHS)
    operators = {node.op_type for node in after.graph.node}
    assert not operators & {"Loop", "Scan", "If", "SequenceConstruct", "SplitToSequence"}


LONG = "SequenceConstruct (" + ", ".join(["b", "x0"] * 9) + ")"
LONG_LISTS = (
    "moves on",
    "first taken, then added",
    "last taken, then in front",
    "written in turn",
    "written, then summed",
)


@pytest.mark.parametrize("name", LONG_LISTS)
def test_a_long_list_becomes_rows(name: str) -> None:
    before = model(text(LISTS[name], LONG, "float[P,4] r"))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert {one.verdict for one in result.report.decisions} == {Verdict.FUSED}


LAYERS = """h1 = SequenceAt (had, zero)  m1 = Add (e, h1)  n1 = Tanh (m1)
    h2 = SequenceAt (had, one)  m2 = Add (n1, h2)  n2 = Tanh (m2)  h3 = SequenceAt (had, two)
    has = SequenceConstruct (n1, n2, h3)  y = Exp (n2)"""
STAY: dict[str, tuple[str, str]] = {
    "states of layers": (LAYERS, "recurrence"),
    "written at a place of any sign": (
        "at = Sub (i, i)  less = SequenceErase (had, at)  has = SequenceInsert (less, v, at)"
        "  y = Identity (v)",
        "recurrence",
    ),
    "read and written": (
        "at1 = Mod (i, three)  old = SequenceAt (had, at1)  u = Add (e, old)  v1 = Tanh (u)"
        "  less = SequenceErase (had, at1)  has = SequenceInsert (less, v1, at1)  y = Identity (v1)",
        "recurrence",
    ),
    "taken under a condition": (
        "h = ReduceMax <keepdims = 0> (e)  z = Constant <value = float {0}> ()  c = Greater (h, z)"
        "  more = SequenceInsert (had, v)  y = Identity (v)  has = If (c) <"
        "then_branch = yes () => (seq(float[4]) p) { p = SequenceErase (more, zero) },"
        "else_branch = no () => (seq(float[4]) q) { q = SequenceErase (more) }>",
        "",
    ),
    "grows": ("m1 = SequenceInsert (had, v)  has = SequenceInsert (m1, e)  y = Identity (v)", ""),
}


CHANGED = {"states of layers", "read and written"}
"""Those that stay Loops, but carry tensors."""


@pytest.mark.parametrize("name", STAY)
def test_other_lists_are_right(name: str) -> None:
    body, code = STAY[name]
    before = model(text(body))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    codes = {reason.code.value for one in result.report.decisions for reason in one.reasons}
    assert not code or code in codes
    forms = {one.form for one in result.report.decisions if one.verdict is Verdict.KEPT}
    assert ("with tensors in the place of its lists" in forms) == (name in CHANGED)
    assert ("as it is" in forms) == (name == "written at a place of any sign")


def test_a_list_that_ends_empty_stays() -> None:
    """Its last element is taken in the third iteration, and one more would be an error."""
    before = model(text("has = SequenceErase (had)  y = Identity (v)"))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, (0, 1, 2))) == 3


def test_elements_of_different_shapes() -> None:
    body = """a = SequenceAt (had, zero)  a2 = Add (a, e)  k = Slice (e, o, o3)  b2 = SequenceAt (had, one)
        c2 = Max (b2, k)  o3 = Constant <value = int64[1] {3}> ()  y = Identity (v)
        l0 = SequenceErase (had, zero)  l1 = SequenceInsert (l0, a2, zero)
        l2 = SequenceErase (l1, one)  has = SequenceInsert (l2, c2, one)"""
    body = body.replace("k = Slice", "o3 = Constant <value = int64[1] {3}> ()  k = Slice")
    body = body.replace("  o3 = Constant <value = int64[1] {3}> ()  y =", "  y =")
    begin = "SequenceConstruct (b, part)".replace("part", "x3")
    given = text(body, begin, "seq(float[?]) all").replace(
        "x0 = Neg (b)",
        "x0 = Neg (b)  to3 = Constant <value = int64[1] {3}> ()  x3 = Slice (b, o, to3)",
    )
    before = model(given.replace("seq(float[4])", "seq(float[?])"))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert {one.verdict for one in result.report.decisions} == {Verdict.FUSED}


def test_a_ring_of_another_shape_stays() -> None:
    """What is written has two rows where the list begins with one."""
    body = """two1 = Constant <value = int64[2] {2, 4}> ()  w = Expand (e, two1)  y = Identity (v)
        at = Mod (i, three)  less = SequenceErase (had, at)  has = SequenceInsert (less, w, at)"""
    given = text(body, end="seq(float[?,4]) all").replace("seq(float[4])", "seq(float[?,4])")
    given = given.replace("x0 = Neg (b)", "b1 = Unsqueeze (b, o)  x0 = Neg (b1)")
    before = model(given.replace("SequenceConstruct (b, x0, b)", "SequenceConstruct (b1, x0, b1)"))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert result.report.after.loops == 1


PICKED = {
    "in turn": "at = Mod (i, three)",
    "by the input": "first = ArgMax <axis = 0, keepdims = 0> (e)  at = Mod (first, three)",
    "from the end": "first = ArgMax <axis = 0, keepdims = 0> (e)  at1 = Mod (first, three)  at = Sub (at1, three)",
}


@pytest.mark.parametrize("list_", ["had", "start"])
@pytest.mark.parametrize("name", PICKED)
def test_elements_of_one_shape_are_picked_at_once(name: str, list_: str) -> None:
    body = f"{PICKED[name]}  a = SequenceAt ({list_}, at)  y = Mul (a, e)  has = Identity (had)"
    before = model(text(body, end="float[P,4] r"))
    for target in ("onnxruntime", "portable"):
        result = rewriter.rewrite(before, target=target)
        assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
        assert {one.verdict for one in result.report.decisions} == {Verdict.FUSED}


def test_elements_of_different_shapes_are_picked_one_by_one() -> None:
    body = "at = Mod (i, two)  a = SequenceAt (start, at)  y = Mul (a, e)  has = Identity (had)"
    given = text(body, "SequenceConstruct (b, x1)", "seq(float[?]) all").replace(
        "x0 = Neg (b)", "to1 = Constant <value = int64[1] {1}> ()  x1 = Slice (b, o, to1)"
    )
    before = model(given.replace("seq(float[4])", "seq(float[?])"))
    result = rewriter.rewrite(before)
    assert same(before, result.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert result.report.after.loops == 1
