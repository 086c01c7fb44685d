"""Loops that append to a list what depends on an element of it: ``hs.append(cell(x, hs[-1]))``."""

from __future__ import annotations

import pytest

from tests.passes.carried.carried import COUNT, INPUTS, LENGTHS, SCALARS, feeds
from tests.passes.loops import kept, model, read, same
from tests.passes.raising.test_split import PREPARE, operators_in_loops

CELL = "m = MatMul (h, wt)  v = Add (m, e)  u = Tanh (v)"
LAST = "last = Constant <value = int64 {-1}> ()"


def grown(body: str, begin: str = "SequenceConstruct (b)", insert: str = "(s, u)") -> str:
    """Return a graph whose Loop appends ``u`` to a list ``s`` and yields all elements."""
    return f"""g ({INPUTS}) => (float[T,4] r, float[4] l) {{ {SCALARS} {COUNT} {PREPARE} {LAST}
        begin = {begin}
        all = Loop (n, t, begin) <body = step (int64 i, bool cond, seq(float[4]) s)
            => (bool go, seq(float[4]) s2) {{
            e = Gather <axis = 0> (x, i)
            {body}
            s2 = SequenceInsert {insert}
            go = Identity (cond)
        }}>
        r = ConcatFromSequence <axis = 0, new_axis = 1> (all)
        l = SequenceAt (all, last)
    }}"""


RECURRENT = {
    "read behind, too": grown(
        f"h = SequenceAt (s, last)  {CELL}  g = Relu (h)  y = MatMul (g, wt)"
    )
    .replace("seq(float[4]) s2) {", "seq(float[4]) s2, float[4] y) {")
    .replace("all = Loop", "all, ys = Loop")
    .replace("float[4] l) {", "float[4] l, float[Q,4] ys) {"),
    "last": grown(f"h = SequenceAt (s, last)  {CELL}"),
    "by the number of the iteration": grown(f"h = SequenceAt (s, i)  {CELL}"),
    "behind two": grown(
        f"i1 = Add (i, one)  h = SequenceAt (s, i1)  {CELL}", "SequenceConstruct (b, b2)"
    ).replace("begin =", "b2 = Neg (b)  begin ="),
    "read twice": grown(f"h = SequenceAt (s, last)  k1 = SequenceAt (s, i)  {CELL}").replace(
        "Add (m, e)", "Sum (m, e, k1)"
    ),
    "and the first": grown(f"h = SequenceAt (s, last)  f0 = SequenceAt (s, zero)  {CELL}").replace(
        "Add (m, e)", "Sum (m, e, f0)"
    ),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_the_loop_carries_the_element_and_no_list(name: str) -> None:
    before = model(RECURRENT[name])
    found = read(before)
    assert found.loops == 1
    assert not operators_in_loops(found.model) & {"SequenceAt", "SequenceInsert", "Relu"}
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


MAPS = {
    "the last, of a cell that is an operator": grown(
        f"h = SequenceAt (s, last)  q = MatMul (e, wt)  {CELL}"
    ).replace("Add (m, e)", "Add (m, q)"),
    "the first": grown("h = SequenceAt (s, zero)  u = Sub (e, h)"),
    "the first of two": grown(
        "h = SequenceAt (s, zero)  h1 = SequenceAt (s, one)  d = Sub (e, h)  u = Mul (d, h1)",
        "SequenceConstruct (b, b2)",
    ).replace("begin =", "b2 = Neg (b)  begin ="),
}


@pytest.mark.parametrize("name", MAPS)
def test_no_loop_is_left_where_no_recurrence_is(name: str) -> None:
    before = model(MAPS[name])
    found = read(before)
    assert found.loops == 0
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


MISSES = {
    "further back": grown(f"h = SequenceAt (s, far)  {CELL}", "SequenceConstruct (b, b)").replace(
        "begin =", "far = Constant <value = int64 {-2}> ()  begin ="
    ),
    "a place that is computed": grown(
        f"j = Gather <axis = 0> (at, i)  j0 = Min (j, i)  h = SequenceAt (s, j0)  {CELL}"
    ),
    "gains elements in front": grown(f"h = SequenceAt (s, last)  {CELL}", insert="(s, u, zero)"),
    "a list of unknown elements": grown(
        f"h = SequenceAt (s, last)  {CELL}", "SplitToSequence <axis = 0, keepdims = 0> (start)"
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_other_reads_keep_the_loop(name: str) -> None:
    found = kept(MISSES[name])
    assert found.codes == ["reads-earlier-result"]
    assert "which holds what earlier iterations wrote" in found.decisions[0].reasons[0].detail


SHAPES = {
    "elements that grow": grown("h = SequenceAt (s, last)  u = Concat <axis = 0> (h, e)"),
    "a first one of another shape": grown(
        "h = SequenceAt (s, last)  v = Add (h, e)  u = Tanh (v)", "SequenceConstruct (z1)"
    ).replace("begin =", "z1 = Unsqueeze (z, zero1)  begin ="),
    "a first one of another rank": grown(
        "h = SequenceAt (s, last)  v = Add (h, e)  u = Tanh (v)", "SequenceConstruct (z)"
    ),
    "elements of unknown rank": grown(
        "h = SequenceAt (s, last)  ke = Gather <axis = 0> (k, i)  v = Add (h, e)  m1 = ReduceMax"
        " <keepdims = 1> (ke)  m2 = Abs (m1)  v2 = Unsqueeze (v, zero1)  m3 = Clip (m2, one, one)"
        "  v3 = Tile (v, m3)  u = Tanh (v3)"
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_elements_of_any_shape(name: str) -> None:
    """A list holds what a Loop cannot collect."""
    text = SHAPES[name].replace("seq(float[4])", "seq(float[])")
    text = text.replace("axis = 0, new_axis = 1> (all)", "axis = 0> (all)")
    text = text.replace("float[T,4] r, float[4] l", "int64 r, float l")
    text = text.replace(
        "l = SequenceAt (all, last)",
        "m9 = SequenceAt (all, last)  l = ReduceSum <keepdims = 0> (m9)",
    )
    text = text.replace("r = ConcatFromSequence <axis = 0> (all)", "r = SequenceLength (all)")
    before = model(text)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
