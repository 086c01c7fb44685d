"""Writes to ranges whose bounds are read from arrays, such as the offsets of segments."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from tests.passes.carried.carried import SCALARS
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

INPUTS = (
    "int64[N] first, int64[N] last, int64[N] left, int64[N] right, float[N] v, float[N,3] w, "
    "float[N,9,3] rows, bool[N] p, float[L,L] square, float[L,M] table, float[L,3] x, "
    "int64[L] ids, bool[L] marks, int64[C] offsets, float z"
)


def loop(state: str, begin: str, body: str, *, count: str = "first") -> str:
    """Return a graph whose Loop carries ``s``, of the shape ``h``, and writes to it."""
    return f"""g ({INPUTS}) => ({state} r) {{ {SCALARS} {CONSTANTS}
        minus = Constant <value = int64 {{-1}}> ()
        truth = Constant <value = bool {{1}}> ()
        lie = Constant <value = bool {{0}}> ()
        shape = Shape ({count})
        whole_n = Gather <axis = 0> (shape, zero)
        less = Sub (whole_n, one)
        n = {"Identity (less)" if count == "offsets" else "Identity (whole_n)"}
        begin = Identity ({begin})
        r = Loop (n, t, begin) <body = step (int64 i, bool cond, {state} s)
            => (bool go, {state} s2) {{
            h = Shape (s)
            {body}
            go = Identity (cond)
        }}>
    }}"""


def bound(name: str, source: str, at: str = "i") -> str:
    """Read one bound as a vector of one number."""
    return f"{name}0 = Gather <axis = 0> ({source}, {at})  {name} = Unsqueeze ({name}0, zero1)"


def part(name: str, axis: int, start: str, end: str) -> str:
    """Compute the positions of a range along an axis."""
    return f"""{counted(axis, f"all{axis}")}
            {name} = Slice (all{axis}, {start}, {end}, zero1, one1)"""


OFFSETS = f"""{bound("a", "offsets")}  next = Add (i, one)  {bound("e", "offsets", "next")}"""
BOUNDS = f"""{bound("a", "first")}  {bound("e", "last")}"""
OTHERS = f"""{bound("b", "left")}  {bound("f", "right")}"""
SQUARE = f"""{part("down", 0, "a", "e")}  {part("along", 1, "a", "e")}
            {grid("down", "along")}
            q0 = Slice (s, a, e, zero1)  q1 = Slice (q0, a, e, one1)  like = Shape (q1)"""
BOX = f"""{part("down", 0, "a", "e")}  {part("along", 1, "b", "f")}
            {grid("down", "along")}
            q0 = Slice (s, a, e, zero1)  q1 = Slice (q0, b, f, one1)  like = Shape (q1)"""
LINE = f"""{part("down", 0, "a", "e")}  places = Unsqueeze (down, minus1)
            q0 = Slice (s, a, e, zero1)  like = Shape (q0)  size_of_grid = Shape (down)"""


def written(value: str) -> str:
    """Write a value to all places, as PyTorch's exporter does."""
    return f"""filling = Expand ({value}, like)
            named = Shape (size_of_grid)  behind = Slice (h, named, far, zero1)
            whole = Concat <axis = 0> (size_of_grid, behind)
            u = Reshape <allowzero = 1> (filling, whole)  s2 = ScatterND (s, places, u)"""


V, W, P = (f"m = Gather <axis = 0> ({source}, i)" for source in ("v", "w", "p"))
RANGES = {
    "squares_of_offsets": (
        "float[L,L]",
        "square",
        f"{OFFSETS} {SQUARE} {written('half')}",
        "offsets",
    ),
    "squares_that_overlap": ("float[L,L]", "square", f"{BOUNDS} {SQUARE} {written('half')}"),
    "boxes_of_one_range_in_a_table": (
        "float[L,M]",
        "table",
        f"{BOUNDS} {SQUARE} {written('half')}",
    ),
    "boxes": ("float[L,M]", "table", f"{BOUNDS} {OTHERS} {BOX} {written('half')}"),
    "boxes_of_an_input": ("float[L,M]", "table", f"{BOUNDS} {OTHERS} {BOX} {written('z')}"),
    "boxes_of_numbers": ("float[L,M]", "table", f"{BOUNDS} {OTHERS} {BOX} {V} {written('m')}"),
    "squares_of_numbers": ("float[L,L]", "square", f"{BOUNDS} {SQUARE} {V} {written('m')}"),
    "line_of_numbers": ("int64[L]", "ids", f"{BOUNDS} {LINE} {written('i')}"),
    "line_of_offsets": ("int64[L]", "ids", f"{OFFSETS} {LINE} {written('i')}", "offsets"),
    "line_of_one": ("int64[L]", "ids", f"{BOUNDS} {LINE} {written('one')}"),
    "rows": ("float[L,3]", "x", f"{BOUNDS} {LINE} {W} {written('m')}"),
    "rows_of_a_number": ("float[L,3]", "x", f"{BOUNDS} {LINE} {V} {written('m')}"),
    "rows_of_a_constant": ("float[L,3]", "x", f"{BOUNDS} {LINE} {written('half')}"),
    "set_marks": ("bool[L]", "marks", f"{BOUNDS} {LINE} {written('truth')}"),
    "cleared_marks": ("bool[L]", "marks", f"{BOUNDS} {LINE} {written('lie')}"),
    "marks": ("bool[L]", "marks", f"{BOUNDS} {LINE} {P} {written('m')}"),
    "point_and_range": (
        "float[L,M]",
        "table",
        f"""{BOUNDS} {OTHERS} down = Identity (a)  {part("along", 1, "b", "f")}
            {grid("down", "along")}
            q0 = Gather <axis = 0> (s, a0)  q1 = Slice (q0, b, f, zero1)  like = Shape (q1)
            {V} {written("m")}""",
    ),
    "range_and_all": (
        "float[L,M]",
        "table",
        f"""{BOUNDS} {part("down", 0, "a", "e")}  {counted(1, "along")}  {grid("down", "along")}
            q1 = Slice (s, a, e, zero1)  like = Shape (q1) {V} {written("m")}""",
    ),
    "a_row_for_each_place": (
        "float[L,3]",
        "x",
        f"""{BOUNDS} {LINE} m = Gather <axis = 0> (rows, i)
            many = Shape <end = 1> (down)  q = Slice (m, zero1, many, zero1)
            {written("q")}""",
    ),
    "a_number_for_each_place": (
        "int64[L]",
        "ids",
        f"""{BOUNDS} {LINE} many = Shape (down)  many0 = Squeeze (many)
            q = Range (zero, many0, one)  {written("q")}""",
    ),
}


def feeds(length: int, seed: int = 0) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations; the ranges overlap, and some are empty."""
    rng = np.random.default_rng((seed, length))
    size, other = 7, 6
    low, high = (np.array(x) for x in ([0, -size, 3], [size, size + 4, 0]))
    first = rng.integers(-size, size, length)
    last = np.where(rng.random(length) < 0.7, rng.integers(0, size + 3, length), first)
    left, right = rng.integers(-other, other, length), rng.integers(-2, other + 3, length)
    edges = min(length, 3)
    first[:edges], last[:edges] = low[:edges], high[:edges]

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "first": first,
        "last": last,
        "left": left,
        "right": right,
        "v": floats(length),
        "w": floats(length, 3),
        "rows": floats(length, 9, 3),
        "p": rng.random(length) < 0.5,
        "square": floats(size, size),
        "table": floats(size, other),
        "x": floats(size, 3),
        "ids": rng.integers(-9, 9, size),
        "marks": rng.random(size) < 0.5,
        "offsets": np.sort(rng.integers(0, size + 1, length + 1)),
        "z": np.float32(0.25),
    }


FEEDS = [feeds(length, seed) for length in (0, 1, 2, 7, 64) for seed in (0, 1)]


@pytest.mark.sampled
@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("name", RANGES)
def test_ranges_that_are_written_end_without_a_loop(name: str, opset: int) -> None:
    state, begin, body, *count = RANGES[name]
    text = loop(state, begin, body, count=count[0] if count else "first")
    before = model(text, opset)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) >= len(FEEDS) - 2


@pytest.mark.parametrize("ranges", [OFFSETS, BOUNDS], ids=["offsets", "overlapping"])
def test_squares_of_a_mask_that_the_model_makes(ranges: str) -> None:
    """Both its axes are one number by proof, so that one question is asked for both."""
    made = """height = Shape <end = 1> (square) sides = Concat <axis = 0> (height, height)
        made = Expand (z, sides) begin = Identity"""
    count = "offsets" if ranges == OFFSETS else "first"
    text = loop("float[A,B]", "made", f"{ranges} {SQUARE} {written('half')}", count=count)
    before = model(text.replace("begin = Identity", made), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert "MatMul" not in {node.op_type for node in found.model.graph.node}
    assert same(before, found.model, *FEEDS) >= len(FEEDS) - 2


def test_a_number_for_each_place_of_a_column() -> None:
    body = f"""{BOUNDS} {OTHERS} {part("down", 0, "a", "e")}  along = Identity (b)
            {grid("down", "along")}
            q0 = Slice (s, a, e, zero1)  q1 = Gather <axis = 1> (q0, b0)  like = Shape (q1)
            many = Shape (down)  many0 = Squeeze (many)  q2 = Range (zero, many0, one)
            q = Cast <to = 1> (q2)  {written("q")}"""
    before = model(loop("float[L,M]", "table", body), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) == len(FEEDS)


CUTS = {"no_axes": "", "no_steps": ", zero1", "axes_left_out": ", , one1"}


@pytest.mark.parametrize("given", CUTS.values(), ids=CUTS)
def test_how_positions_are_cut(given: str) -> None:
    body = f"{OFFSETS} {LINE} {V} {written('m')}".replace(", zero1, one1)", f"{given})")
    before = model(loop("float[L]", "x1", body, count="offsets").replace(
        "begin = Identity", "x1 = Gather <axis = 1> (x, zero) begin = Identity"), 18)  # fmt: skip
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS[2:]) == len(FEEDS[2:])


ATTRIBUTES = {"axis", "value", "allowzero"}


def second(text: str, tensor: str = "s1") -> str:
    """Let a write follow another, whose names end on 1."""
    names = set(re.findall(r"(\w+) = ", text)) - {"a", "e", "b", "f", "i1"} - ATTRIBUTES
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{name}\b", f"{name}_2", text)
    text = re.sub(r"\bh\b", "h_2", text)
    text = re.sub(r"\bs\b", tensor, text)
    return f"h_2 = Shape ({tensor})  {text}".replace("s2_2 =", "s2 =")


def first(text: str) -> str:
    return text.replace("s2 = ", "s1 = ")


OWN = f"""i1 = Unsqueeze (i, zero1)  {BOUNDS} {OTHERS}"""
LATER = OWN.replace("Unsqueeze (i, zero1)", "Unsqueeze (later, zero1)")
CELLS = f"""{part("along", 1, "b", "f")}  {grid("i1", "along")}
            q0 = Gather <axis = 0> (s, i)  q1 = Slice (q0, b, f, zero1)  like = Shape (q1)"""
PLACE = f"""{grid("i1", "two1")}  like = Identity (none)"""
GRID = f"""{part("down", 1, "a", "e")}  {part("along", 2, "b", "f")}
            {grid("i1", "down", "along")}
            q0 = Gather <axis = 0> (s, i)  q1 = Slice (q0, a, e, zero1)
            q2 = Slice (q1, b, f, one1)  like = Shape (q2)"""
COLUMNS = f"""{part("along", 2, "b", "f")}  {counted(1, "down")}  {grid("i1", "down", "along")}
            q0 = Gather <axis = 0> (s, i)  q1 = Slice (q0, b, f, one1)  like = Shape (q1)"""
ROWS = {
    "columns": ("float[K,L,M]", "boxes", f"{OWN} {COLUMNS} {written('half')}"),
    "columns_of_numbers": ("float[K,L,M]", "boxes", f"{OWN} {COLUMNS} {V} {written('m')}"),
    "grid": ("float[K,L,M]", "boxes", f"{OWN} {GRID} {written('half')}"),
    "grid_of_numbers": ("float[K,L,M]", "boxes", f"{OWN} {GRID} {V} {written('m')}"),
    "grid_of_later_rows": (
        "float[K,L,M]",
        "boxes",
        f"later = Add (i, two)  {LATER} {GRID} {V} {written('m')}".replace("(s, i)", "(s, later)"),
    ),
    "two_ranges": (
        "float[K,M]",
        "wide",
        OWN
        + first(CELLS + written("half"))
        + second(f"{V} {CELLS} {written('m')}".replace(", b, f", ", a, e")),
    ),
    "range_and_place": (
        "float[K,M]",
        "wide",
        OWN + first(CELLS + written("half")) + second(f"{PLACE} {written('z')}"),
    ),
    "chain_of_lines": (
        "int64[L]",
        "ids",
        f"{BOUNDS} {OTHERS} "
        + first(LINE + written("i"))
        + second((LINE + written("one")).replace(", a, e", ", b, f")),
    ),
}


def of_rows(state: str, begin: str, body: str) -> onnx.ModelProto:
    text = loop(state, begin, body)
    return model(text.replace("float z", "float z, float[K,L,M] boxes, float[K,M] wide"), 18)


def prove_rows(before: onnx.ModelProto) -> None:
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    rng = np.random.default_rng(1)
    boxes = rng.standard_normal((70, 7, 6)).astype(np.float32)
    more = [{**f, "boxes": boxes, "wide": boxes[:, 0]} for f in FEEDS]
    assert same(before, found.model, *more) == len(more)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ROWS)
def test_several_writes_and_rows_of_its_own(name: str) -> None:
    prove_rows(of_rows(*ROWS[name]))


@pytest.mark.parametrize("name", ["columns", "grid", "range_and_place"])
def test_rows_of_its_own_under_a_condition(name: str) -> None:
    """The bounds are read in every iteration, so that the branch cannot fail."""
    state, begin, body = ROWS[name]
    inside = body.removeprefix(OWN).replace("s2 = ", "s3 = ")
    written_or_not = f"""{OWN} pe = Gather <axis = 0> (p, i)
        s2 = If (pe) <then_branch = yes () => ({state} s3) {{ {inside} }},
            else_branch = no () => ({state} s4) {{ s4 = Identity (s) }}>"""
    prove_rows(of_rows(state, begin, written_or_not))


MOVING = OFFSETS.replace(bound("a", "offsets"), "a = Unsqueeze (i, zero1)")
DEAR = {
    "boxes_of_numbers": RANGES["boxes_of_numbers"],
    "ranges_that_move": ("int64[L]", "ids", f"{MOVING} {LINE} {written('i')}"),
}


@pytest.mark.parametrize("lacks", [(), ("Loop",)])
@pytest.mark.parametrize("name", DEAR)
def test_what_a_loop_is_faster_with_stays(name: str, lacks: tuple[str, ...]) -> None:
    """Each place would be compared with each iteration; a target without loops gets that."""
    state, begin, body = DEAR[name]
    before = model(loop(state, begin, body), 18)
    found = read(before, auto=True, lacks=lacks)
    assert found.loops == (0 if lacks else 1)
    assert found.codes == ([] if lacks else ["cost"])


MISSES = {
    "what_was_written_is_read": f"{BOUNDS} {LINE} k0 = Gather <axis = 0> (s, a0)  {written('k0')}",
    "bounds_that_were_written": f"""{BOUNDS} {LINE} {V} {written("m")}""".replace(
        "a = Unsqueeze (a0, zero1)",
        "k0 = Gather <axis = 0> (s, a0)  k1 = Cast <to = 7> (k0)  a = Unsqueeze (k1, zero1)",
    ),
}
ANYWHERE = {
    "every_second_place": f"{BOUNDS} {LINE} {V} {written('m')}".replace(
        "zero1, one1)", "zero1, two1)"
    ),
    "other_numbers_than_positions": f"{BOUNDS} {LINE} {V} {written('m')}".replace(
        "Range (zero, n0, one)", "Range (one, n0, one)"
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(
        loop("float[L]", "edge", MISSES[name]).replace("float z", "float z, float[L] edge")
    )
    found = read(before)
    assert found.loops == 1
    assert set(found.codes) == {"recurrence"}
    wide = [{**f, "edge": f["x"][:, 0]} for f in FEEDS]
    assert same(before, found.model, *wide) >= 2


@pytest.mark.parametrize("lacks", [(), ("Loop",)])
@pytest.mark.parametrize("name", ANYWHERE)
def test_places_of_any_kind_are_sorted(name: str, lacks: tuple[str, ...]) -> None:
    """Where an iteration writes to many of them a loop is faster."""
    before = model(
        loop("float[L]", "edge", ANYWHERE[name]).replace("float z", "float z, float[L] edge")
    )
    wide = [{**f, "edge": f["x"][:, 0]} for f in FEEDS]
    found = read(before, auto=True, lacks=lacks)
    assert found.loops == (0 if lacks else 1)
    assert found.codes == ([] if lacks else ["cost"])
    assert same(before, read(before).model, *wide) >= 2


INSIDE = f"""{BOUNDS} pos = Range (zero, size, one)
            c0 = GreaterOrEqual (pos, a)  c1 = Less (pos, e)  c = And (c0, c1)
            c2 = Unsqueeze (c, one1)  c3 = Unsqueeze (c, zero1)  cc = And (c2, c3)"""
BLANK = """whole = Shape (ids)  size = Gather (whole, zero)
        both = Concat <axis = 0> (whole, whole)  blank = ConstantOfShape (both)"""
CONDITIONS = {
    "number_of_the_iteration": ("int64[L]", "ids", f"{INSIDE} s2 = Where (c, i, s)"),
    "constant": ("float[L,L]", "blank", f"{INSIDE} s2 = Where (cc, half, s)"),
    "number": ("float[L,L]", "blank", f"{INSIDE} {V} s2 = Where (cc, m, s)"),
    "columns": ("float[L,L]", "blank", f"{INSIDE} {V} s2 = Where (c, m, s)"),
    "rows": ("float[L,L]", "blank", f"{INSIDE} {V} s2 = Where (c2, m, s)"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_that_compare_positions(name: str) -> None:
    """The exporter of torch.export writes a mask in a loop so."""
    state, begin, body = CONDITIONS[name]
    text = loop(state, begin, body).replace("begin = ", f"{BLANK}\n        begin = ", 1)
    before = model(text, 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) == len(FEEDS)


def test_whole_columns_of_several_numbers() -> None:
    body = f"""{OTHERS} {counted(0, "down")}  {grid("down", "b")}
            m0 = Gather <axis = 0> (s, zero)  q = Range (zero, n0, one)  m = Cast <to = 1> (q)
            u = Reshape (m, size_of_grid)  s2 = ScatterND (s, places, u)"""
    before = model(loop("float[L,M]", "table", body), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) == len(FEEDS)
