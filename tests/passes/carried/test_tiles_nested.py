"""Tiles that a Loop in a Loop pastes onto what both carry, or adds to it: grids of tiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, SCALARS
from tests.passes.carried.places import CONSTANTS
from tests.passes.carried.test_tiles import box, write
from tests.passes.loops import model, read, same

INPUTS = "float[N,M,2,3] tiles, float[N,M,2,2,3] wide, float[N,M] v"
CANVAS, PLANES = "float[H,W]", "float[2,H,W]"
ENDS = """y = Mul (i, {down})  below = Add (i, one)  x = Mul (j, {along})  beside = Add (j, one)
            bottom = {bottom}  right = {right}
            ys = Unsqueeze (y, zero1)  xs = Unsqueeze (x, zero1)
            bs = Unsqueeze (bottom, zero1)  rs = Unsqueeze (right, zero1)"""
APART = ENDS.format(
    down="two", along="three", bottom="Mul (below, two)", right="Mul (beside, three)"
)
MEETING = ENDS.format(down="one", along="two", bottom="Add (y, two)", right="Add (x, three)")


def loop(state: str, body: str) -> str:
    """Return a graph with a Loop in a Loop; both carry the canvas."""
    return f"""g ({INPUTS}, {state} start) => ({state} r) {{ {SCALARS} {CONSTANTS}
        three = Constant <value = int64 {{3}}> ()
        shape = Shape (v)
        n = Gather <axis = 0> (shape, zero)
        m = Gather <axis = 0> (shape, one)
        r = Loop (n, t, start) <body = outer (int64 i, bool on, {state} a)
            => (bool on2, {state} a2) {{
            tilesi = Gather <axis = 0> (tiles, i)
            widei = Gather <axis = 0> (wide, i)
            vi = Gather <axis = 0> (v, i)
            a2 = Loop (m, t, a) <body = step (int64 j, bool cond, {state} s)
                => (bool go, {state} s2) {{
                h = Shape (s)
                e = Gather <axis = 0> (tilesi, j)
                ww = Gather <axis = 0> (widei, j)
                ve = Gather <axis = 0> (vi, j)
                {body}
                go = Identity (cond)
            }}>
            on2 = Identity (on)
        }}>
    }}"""


TILES = {
    "pasted": loop(CANVAS, box(0, APART) + write("new = Identity (e)", 2)),
    "pasted_in_planes": loop(PLANES, box(1, APART) + write("new = Identity (ww)", 3)),
    "one_for_all_planes": loop(PLANES, box(1, APART) + write("new = Identity (e)", 3)),
    "one_number_each": loop(CANVAS, box(0, APART) + write("new = Identity (ve)", 2)),
    "over_others": loop(CANVAS, box(0, MEETING) + write("new = Identity (e)", 2)),
    "over_others_in_planes": loop(PLANES, box(1, MEETING) + write("new = Identity (ww)", 3)),
    "added": loop(CANVAS, box(0, MEETING) + write("new = Add (old, e)", 2)),
    "added_in_planes": loop(PLANES, box(1, MEETING) + write("new = Add (ww, old)", 3)),
    "counted": loop(CANVAS, box(0, MEETING) + write("new = Add (old, half)", 2)),
}
CELL = """both = Range (zero, two, one)  ROW  i2 = Expand (row, two1)  j2 = Expand (j, two1)
            c0 = Unsqueeze (both, minus1)  c1 = Unsqueeze (i2, minus1)  c2 = Unsqueeze (j2, minus1)
            places = Concat <axis = -1> (c0, c1, c2)  u = Expand (ve, two1)
            s2 = ScatterND (s, places, u)"""
TILES["one_place_of_all_planes"] = loop(PLANES, CELL.replace("ROW", "row = Identity (i)"))
SIZES = [(n, m) for n in LENGTHS[:-1] for m in (0, 1, 3)] + [(64, 2), (2, 64)]


def feeds(n: int, m: int, state: str = CANVAS) -> Mapping[str, np.ndarray]:
    """Make a grid of tiles, and a canvas that is large enough."""
    rng = np.random.default_rng((n, m))

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "tiles": floats(n, m, 2, 3),
        "wide": floats(n, m, 2, 2, 3),
        "v": floats(n, m),
        "start": floats(*([2] if state == PLANES else []), 2 * n + 3, 3 * m + 1),
    }


def state_of(name: str) -> str:
    return PLANES if PLANES in TILES[name] else CANVAS


@pytest.mark.parametrize("name", TILES)
@pytest.mark.long
def test_grids_of_tiles_end_without_a_loop(name: str) -> None:
    before = model(TILES[name], 18)
    found = read(before, auto=True)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(*size, state_of(name)) for size in SIZES]
    assert same(before, found.model, *given) == len(given)


def test_rows_of_their_own_are_one_scatter() -> None:
    """All places of an outer iteration lie in row ``i``, so that nothing is asked of them."""
    before = model(TILES["one_place_of_all_planes"], 18)
    whole = read(before).model.graph
    assert [node.op_type for node in whole.node].count("ScatterND") == 1
    (beside_copies,) = (n for n in read(before, auto=True).model.graph.node if n.op_type == "If")
    (batched,) = (a.g for a in beside_copies.attribute if a.name == "then_branch")
    assert [node.op_type for node in batched.node].count("ScatterND") == 1


@pytest.mark.parametrize("name", ["pasted", "pasted_in_planes", "added"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(TILES[name], 18)
    made = rewrite(before, target="portable").model
    given = [feeds(*size, state_of(name)) for size in SIZES]
    assert same(before, made, *given) == len(given)


@pytest.mark.parametrize("name", ["one_number_each", "counted"])
def test_a_box_is_cut_at_the_edges(name: str) -> None:
    before = model(TILES[name], 18)
    after = read(before).model
    for height, width in ((0, 0), (1, 7), (3, 4), (5, 1), (4, 0)):
        feed = {**feeds(3, 2), "start": np.zeros((height, width), np.float32)}
        assert same(before, after, feed) == 1


NEAR = {
    "it_changes_what_is_there": loop(
        CANVAS, box(0, MEETING) + write("no = Tanh (old)  new = Add (no, e)", 2)
    ),
    "two_rows_of_places_are_one": loop(
        PLANES,
        CELL.replace("ROW", "row = Div (i, two)")
        .replace("(ve,", "(w,")
        .replace("places =", "m0 = ReduceMax <keepdims = 0> (s)  w = Add (ve, m0)  places ="),
    ),
    "inner_loop_reads_the_sum": loop(
        CANVAS, box(0, APART) + write("all = ReduceSum <keepdims = 0> (s)  new = Mul (e, all)", 2)
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_other_grids_stay_in_loops(name: str) -> None:
    before = model(NEAR[name], 18)
    found = read(before)
    assert found.loops == 2
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(*size, PLANES if PLANES in NEAR[name] else CANVAS) for size in SIZES]
    assert same(before, found.model, *given) == len(given)


FORMS = {
    "a_transpose": """q = Transpose <perm = [1, 0]> (s)  {point}
            u = ScatterND (q, places, e1)  s2 = Transpose <perm = [1, 0]> (u)""",
    "a_vector": """flat = Reshape (s, minus1)  {point}  i4 = Mul (i, four)
            p4 = Add (i4, places)  u = ScatterND (flat, p4, ve)
            whole = Shape (s)  s2 = Reshape (u, whole)""",
}
NOT_FORMS = {
    "put_back_otherwise": FORMS["a_transpose"].replace(
        "s2 = Transpose <perm = [1, 0]> (u)", "s2 = Identity (u)"
    ),
    "the_form_asks_for_what_is_in_it": FORMS["a_vector"].replace(
        "flat = Reshape (s, minus1)",
        """low = ReduceMin <keepdims = 1> (s)  l2 = Reshape (low, minus1)
            l3 = Cast <to = 7> (l2)  l4 = Min (l3, minus1)  l5 = Max (l4, minus1)
            flat = Reshape (s, l5)""",
    ),
    "the_form_asks_in_a_branch_for_what_is_in_it": FORMS["a_vector"].replace(
        "flat = Reshape (s, minus1)",
        """many = Greater (n, four)  l3 = If (many) <
            then_branch = then () => (int64[1] p) {{
                low = ReduceMin <keepdims = 1> (s)  l2 = Reshape (low, minus1)
                l4 = Cast <to = 7> (l2)  l5 = Min (l4, minus1)  p = Max (l5, minus1) }},
            else_branch = else () => (int64[1] q) {{ q = Identity (minus1) }}>
            flat = Reshape (s, l3)""",
    ),
    "it_writes_what_it_reads": FORMS["a_vector"].replace(
        "u = S", "old = ReduceMax <keepdims = 1> (s)  o1 = Reshape (old, minus1)  u = S"
    ).replace("p4, ve", "p4, o1"),
}  # fmt: skip


def in_form(body: str) -> str:
    """Return a graph with a Loop that writes to another form of what it carries."""
    point = "i1 = Unsqueeze (i, zero1)  places = Unsqueeze (i1, minus1)"
    return f"""g (float[N,4] x, float[4,4] start, float[N,1] w) => (float[4,4] r) {{ {SCALARS}
        minus1 = Constant <value = int64[1] {{-1}}> ()
        four = Constant <value = int64 {{3}}> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        r = Loop (n, t, start) <body = step (int64 i, bool cond, float[4,4] s)
            => (bool go, float[4,4] s2) {{
            e = Gather <axis = 0> (x, i)
            e1 = Unsqueeze (e, zero1)
            ve = Gather <axis = 0> (w, i)
            {body.format(point=point)}
            go = Identity (cond)
        }}>
    }}"""


def form_feeds(length: int) -> Mapping[str, np.ndarray]:
    rng = np.random.default_rng(length)
    shapes = {"x": (length, 4), "start": (4, 4), "w": (length, 1)}
    return {k: rng.standard_normal(v).astype(np.float32) for k, v in shapes.items()}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_written_in_another_form(name: str) -> None:
    before = model(in_form(FORMS[name]))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(form_feeds, range(5))) == 5


@pytest.mark.parametrize("name", NOT_FORMS)
def test_what_is_no_other_form_stays(name: str) -> None:
    before = model(in_form(NOT_FORMS[name]))
    found = read(before)
    assert found.loops == 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(form_feeds, range(5))) == 5
