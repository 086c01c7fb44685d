"""Tiles that a loop pastes onto what it carries, or adds to it, at places along two axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from passes.decisions import Verdict
from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS, SCALARS
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

INPUTS = "int64[N] top, int64[N] left, float[N,2,3] tiles, float[N,2,2,3] wide, float[N] v"
CANVAS, PLANES = "float[H,W]", "float[2,H,W]"


def loop(state: str, body: str, more: str = "") -> str:
    """Return a graph whose Loop carries ``s``, of the shape ``h``, and writes to it."""
    return f"""g ({INPUTS}, {state} start) => ({state} r) {{ {SCALARS} {CONSTANTS}
        three = Constant <value = int64 {{3}}> ()
        shape = Shape (top)
        n = Gather <axis = 0> (shape, zero)
        {more}
        r = Loop (n, t, start) <body = step (int64 i, bool cond, {state} s)
            => (bool go, {state} s2) {{
            h = Shape (s)
            y = Gather <axis = 0> (top, i)
            x = Gather <axis = 0> (left, i)
            e = Gather <axis = 0> (tiles, i)
            ww = Gather <axis = 0> (wide, i)
            ve = Gather <axis = 0> (v, i)
            {body}
            go = Identity (cond)
        }}>
    }}"""


ENDS = """bottom = Add (y, two)  right = Add (x, three)
            ys = Unsqueeze (y, zero1)  xs = Unsqueeze (x, zero1)
            bs = Unsqueeze (bottom, zero1)  rs = Unsqueeze (right, zero1)"""


def box(first: int, ends: str = ENDS) -> str:
    """Compute the places of a box along two axes, and ``old``, what stands there."""
    down, along = (
        f"""{counted(first + at, f"all{at}")}
            {name} = Slice (all{at}, {start}, {end}, zero1, one1)"""
        for at, (name, start, end) in enumerate([("down", "ys", "bs"), ("along", "xs", "rs")])
    )
    axes = ["zero1", "one1", "two1"][first : first + 2]
    cuts = f"""part = Slice (s, ys, bs, {axes[0]})
            old = Slice (part, xs, rs, {axes[1]})  like = Shape (old)"""
    if not first:
        return f"{ends}  {down}  {along}  {grid('down', 'along')}  {cuts}"
    every = f"""{counted(0, "every")}"""
    return f"{ends}  {every}  {down}  {along}  {grid('every', 'down', 'along')}  {cuts}"


def write(value: str, named: int) -> str:
    """Write a value to the box."""
    return f"""{value}
            q = Expand (new, like)
            last1 = Constant <value = int64[1] {{{named}}}> ()
            behind = Slice (h, last1, far, zero1)
            whole = Concat <axis = 0> (size_of_grid, behind)
            u = Reshape <allowzero = 1> (q, whole)
            s2 = ScatterND (s, places, u)"""


TILES = {
    "pasted": loop(CANVAS, box(0) + write("new = Identity (e)", 2)),
    "pasted_in_planes": loop(PLANES, box(1) + write("new = Identity (ww)", 3)),
    "one_for_all_planes": loop(PLANES, box(1) + write("new = Identity (e)", 3)),
    "one_number_each": loop(CANVAS, box(0) + write("new = Identity (ve)", 2)),
    "in_rows_of_three": loop(
        CANVAS,
        """j = Div (i, three)  k = Mod (i, three)  y5 = Mul (j, two)  y6 = Mod (y5, three)
            x5 = Mul (k, two)  """
        + box(0).replace("y,", "y6,").replace("x,", "x5,")
        + write("new = Identity (e)", 2),
    ),
    "from_the_end_in_rows": loop(
        CANVAS,
        """j = Div (i, three)  j1 = Mod (j, three)  y5 = Sub (j1, three)  y6 = Sub (y5, two)
            """
        + box(0).replace("y,", "y6,")
        + write("new = Identity (ve)", 2),
    ),
    "added": loop(CANVAS, box(0) + write("new = Add (old, e)", 2)),
    "added_in_planes": loop(PLANES, box(1) + write("new = Add (ww, old)", 3)),
    "counted": loop(PLANES, box(1) + write("new = Add (old, half)", 3)),
    "greatest": loop(CANVAS, box(0) + write("new = Max (old, e)", 2)),
}


def feeds(length: int, state: str = CANVAS, least: int = 0) -> Mapping[str, np.ndarray]:
    """Make tiles for a number of iterations, many of which overlap."""
    rng = np.random.default_rng(length)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "top": rng.integers(least, 6, length),
        "left": rng.integers(least, 5, length),
        "tiles": floats(length, 2, 3),
        "wide": floats(length, 2, 2, 3),
        "v": floats(length),
        "start": floats(*([2] if state == PLANES else []), 7, 7),
    }


def state_of(name: str) -> str:
    return PLANES if PLANES in TILES[name] else CANVAS


@pytest.mark.sampled
@pytest.mark.parametrize("name", TILES)
def test_tiles_end_without_a_loop(name: str) -> None:
    before = model(TILES[name], 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [feeds(n, state_of(name)) for n in LENGTHS]
    assert same(before, found.model, *given) == len(LENGTHS)


@pytest.mark.parametrize("name", ["one_number_each", "counted"])
def test_a_box_is_cut_at_the_edges(name: str) -> None:
    """A start in front of the tensor counts from its end, as a Slice has it."""
    before = model(TILES[name], 18)
    after = read(before).model
    for top in range(-9, 9):
        feed = {**feeds(3, state_of(name)), "top": np.array([top, 2, top + 1])}
        assert same(before, after, feed) == 1


@pytest.mark.parametrize("name", ["pasted", "added_in_planes"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(TILES[name], 18)
    made = rewrite(before, target="portable").model
    given = [feeds(n, state_of(name)) for n in LENGTHS]
    assert same(before, made, *given) == len(LENGTHS)


def test_an_infinity_stays_where_its_tile_is() -> None:
    feed = dict(feeds(4))
    feed["tiles"] = np.full((4, 2, 3), np.nan, np.float32)
    feed["tiles"][1:] = [[[np.inf]], [[1]], [[-np.inf]]]
    for name in ("pasted", "added", "greatest"):
        before = model(TILES[name], 18)
        assert same(before, read(before).model, feed) == 1


def test_sums_round_and_what_is_pasted_does_not() -> None:
    assert read(model(TILES["added"], 18), exact=True).loops == 1
    assert read(model(TILES["pasted"], 18), exact=True).loops == 0


@pytest.mark.parametrize("name", ["pasted", "pasted_in_planes", "in_rows_of_three"])
def test_an_old_opset_sorts_small_tiles_that_are_pasted(name: str) -> None:
    before = model(TILES[name], 17)
    found = read(before, auto=True)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED, decision.reasons
    # Many copies of a large body are more than the Loop as given, for few iterations.
    assert found.loops == (decision.few > 0 and not decision.few_copied)
    given = [feeds(n, state_of(name)) for n in LENGTHS]
    assert same(before, found.model, *given) == len(LENGTHS)


@pytest.mark.parametrize("lacks", [(), ("Loop", "If")])
def test_an_old_opset_keeps_the_loop_of_large_tiles_that_may_overlap(
    lacks: tuple[str, ...],
) -> None:
    """A target without control flow has them sorted."""
    text = TILES["one_number_each"].replace("three = Constant <value = int64 {3}>", LARGE)
    before = model(text, 17)
    found = read(before, lacks=lacks)
    assert found.loops == (0 if lacks else 1)
    assert ("opset" in found.codes) == (not lacks)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert read(model(TILES["added"], 17)).loops == 0


LARGE = "three = Constant <value = int64 {30}>"
OTHER = "yy = Add (ys, one1)"
NEAR = {
    "it_adds_to_another_box": loop(
        CANVAS,
        box(0).replace("part = Slice (s, ys", f"{OTHER}  part = Slice (s, yy")
        + write("new = Add (old, e)", 2),
    ),
    "it_changes_what_is_there": loop(
        CANVAS, box(0) + write("no = Tanh (old)  new = Add (no, e)", 2)
    ),
    "a_side_of_any_length": loop(
        CANVAS, box(0, ENDS.replace("Add (y, two)", "Add (y, x)")) + write("new = Identity (e)", 2)
    ),
    "bounds_that_it_reads": loop(
        CANVAS,
        box(
            0,
            ENDS.replace(
                "bottom =",
                "c0 = ReduceMax <keepdims = 0> (s)  c1 = Cast <to = 7> (c0) yc = Add (y, c1)  bottom =",
            )
            .replace("Add (y, two)", "Add (yc, two)")
            .replace("Unsqueeze (y, zero1)", "Unsqueeze (yc, zero1)"),
        )
        + write("new = Identity (e)", 2),
    ),
}


@pytest.mark.parametrize("name", NEAR)
def test_other_boxes_stay_in_a_loop(name: str) -> None:
    before = model(NEAR[name], 18)
    found = read(before)
    assert found.loops >= 1
    assert "recurrence" in found.codes, [(d.path, d.reasons) for d in found.decisions]
    same(before, found.model, *map(feeds, LENGTHS))


RANGE = """top1 = Mul (i, two)  bottom1 = Add (top1, three)
            ys = Unsqueeze (top1, zero1)  bs = Unsqueeze (bottom1, zero1)
            {all}
            down = Slice (all, ys, bs, zero1, one1)
            old = Slice (s, ys, bs, zero1, one1)  like = Shape (old)
            {new}
            q = Expand (new, like)  size = Shape (down)
            places = Unsqueeze (down, minus1)
            u = Reshape <allowzero = 1> (q, size)
            s2 = ScatterND (s, places, u)"""
RANGES = {
    "added": "row = Gather <axis = 0> (e, zero)  new = Add (old, row)",
    "counted": "new = Add (old, half)",
    "greatest": "row = Gather <axis = 0> (e, one)  new = Max (row, old)",
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_that_overlap_are_added_up(name: str) -> None:
    """As frames of sound are put together again: ``s[2 * i : 2 * i + 3] += e``."""
    before = model(loop("float[L]", RANGE.format(all=counted(0), new=RANGES[name])), 18)
    found = read(before, auto=True)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    given = [dict(feeds(n)) for n in LENGTHS]
    for feed, n in zip(given, LENGTHS, strict=True):
        feed["start"] = np.arange(2 * n + 1, dtype=np.float32)
    assert same(before, found.model, *given) == len(given)
