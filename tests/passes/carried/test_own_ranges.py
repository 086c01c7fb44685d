"""Writes to ranges of any length within a row, or a column, that is each iteration's own.

Padding masks, padded batches and batches of images of any size are written so by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import is_used
from rewriter import rewrite
from rewriter.backends import BackendError, run
from tests.passes.carried.carried import LENGTHS, SCALARS
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

INPUTS = (
    "int64[N] first, int64[N] last, int64[N] left, int64[N] right, float[N] v, float[N,3] w, "
    "float[N,L,3] x, float[N,L,M] images, int64[N] k, bool[N] p, int64[C] offsets, "
    "float[T,3] packed, float[K,L,3] start, float[L,K,3] turned, float[K,L,M] boxes, "
    "float[L,M,K] behind, float[N,L,M,3] deep, float[K,L,M,3] wide, bool[K,L] marks, int64[K,L] ids, float[K,L] table, float[L,K] columns"
)


def loop(state: str, begin: str, body: str) -> str:
    """Return a graph whose Loop carries ``s``, of the shape ``h``, and writes to it."""
    return f"""g ({INPUTS}) => ({state} r) {{ {SCALARS} {CONSTANTS}
        truth = Constant <value = bool {{1}}> ()
        shape = Shape (first)
        n = Gather <axis = 0> (shape, zero)
        begin = Identity ({begin})
        r = Loop (n, t, begin) <body = step (int64 i, bool cond, {state} s)
            => (bool go, {state} s2) {{
            h = Shape (s)  i1 = Unsqueeze (i, zero1)
            a0 = Gather <axis = 0> (first, i)  a = Unsqueeze (a0, zero1)
            e0 = Gather <axis = 0> (last, i)  e = Unsqueeze (e0, zero1)
            b0 = Gather <axis = 0> (left, i)  b = Unsqueeze (b0, zero1)
            f0 = Gather <axis = 0> (right, i)  f = Unsqueeze (f0, zero1)
            {body}
            go = Identity (cond)
        }}>
    }}"""


def part(name: str, axis: int, start: str, end: str) -> str:
    """Compute the positions of a range along an axis."""
    return f"""{counted(axis, f"all{axis}")}
            {name} = Slice (all{axis}, {start}, {end}, zero1, one1)"""


def back(value: str = "q") -> str:
    """Write a value to the places, as PyTorch's exporter does."""
    return f"""filling = Expand ({value}, like)
            named = Shape (size_of_grid)  rest = Slice (h, named, far, zero1)
            whole = Concat <axis = 0> (size_of_grid, rest)
            u = Reshape <allowzero = 1> (filling, whole)  s2 = ScatterND (s, places, u)"""


ROW = f"""{part("along", 1, "a", "e")}  {grid("i1", "along")}
            q0 = Gather <axis = 0> (s, i)  old = Slice (q0, a, e, zero1)  like = Shape (old)"""
COLUMN = f"""{part("down", 0, "a", "e")}  {grid("down", "i1")}
            q0 = Slice (s, a, e, zero1)  old = Gather <axis = 1> (q0, i)  like = Shape (old)"""
BOX = f"""{part("down", 1, "a", "e")}  {part("along", 2, "b", "f")}
            {grid("i1", "down", "along")}
            q0 = Gather <axis = 0> (s, i)  q1 = Slice (q0, a, e, zero1)
            old = Slice (q1, b, f, one1)  like = Shape (old)"""
LAST = f"""{part("down", 0, "a", "e")}  {part("along", 1, "b", "f")}
            {grid("down", "along", "i1")}
            q0 = Slice (s, a, e, zero1)  q1 = Slice (q0, b, f, one1)
            old = Gather <axis = 2> (q1, i)  like = Shape (old)"""
WIDE = f"""{part("along", 1, "a", "e")}  {counted(2, "across")}  {grid("i1", "along", "across")}
            q0 = Gather <axis = 0> (s, i)  old = Slice (q0, a, e, zero1)  like = Shape (old)"""
V, W, K, P = (f"m = Gather <axis = 0> ({source}, i)" for source in ("v", "w", "k", "p"))
OWN = "x0 = Gather <axis = 0> (x, i)  m = Slice (x0, a, e, zero1)"
LINE = f"{OWN.replace('m =', 'm0 =')}  m = Gather <axis = 1> (m0, zero)"
IMAGE = """x0 = Gather <axis = 0> (images, i)  x1 = Slice (x0, a, e, zero1)
            m = Slice (x1, b, f, one1)"""
PACKED = """next = Add (i, one)  o0 = Gather <axis = 0> (offsets, i)  o = Unsqueeze (o0, zero1)
            d0 = Gather <axis = 0> (offsets, next)  d = Unsqueeze (d0, zero1)
            m0 = Slice (packed, o, d, zero1)  m = Tanh (m0)  much = Shape <end = 1> (m)"""

JOIN = "q = {} (old, m)"

LISTED = """next = Add (i, one)  o0 = Gather <axis = 0> (offsets, i)
            d0 = Gather <axis = 0> (offsets, next)  many = Sub (d0, o0)  d1 = Unsqueeze (d0, zero1)
            o1 = Unsqueeze (o0, zero1)  many1 = Unsqueeze (many, zero1)
            own = Cast <to = 6> (i)  most = Cast <to = 6> (many)
            place = Expand (own, many1)  across = Range (zero32, most, one32)
            left1 = Unsqueeze (place, one1)  right1 = Unsqueeze (across, one1)
            both = Concat <axis = 1> (left1, right1)  places = Cast <to = 7> (both)"""
FILLED = "u = Expand (m, many1)  s2 = ScatterND (s, places, u)"
GIVEN = """x0 = Gather <axis = 0> (x, i)  u = Slice (x0, zero1, many1, zero1)
            s2 = ScatterND (s, places, u)"""
Y = ("float[K,L,3]", "start")
WRITES = {
    "mask": ("bool[K,L]", "marks", f"{ROW} {back('truth')}"),
    "mask of an input": ("bool[K,L]", "marks", f"{P} {ROW} {back('m')}"),
    "numbers": ("float[K,L]", "table", f"{V} {ROW} {back('m')}"),
    "integers": ("int64[K,L]", "ids", f"{K} {ROW} {back('m')}"),
    "a row for all places": (*Y, f"{W} {ROW} {back('m')}"),
    "rows": (*Y, f"{OWN} {ROW} {back('m')}"),
    "rows and all behind": (*Y, f"{OWN} {WIDE} {back('m')}"),
    "one row of a slice": (*Y, f"m = Slice (packed, zero1, one1, zero1)  {ROW} {back('m')}"),
    "numbers of a row": ("float[K,L]", "table", f"{LINE} {ROW} {back('m')}"),
    "columns": ("float[L,K,3]", "turned", f"{OWN} {COLUMN} {back('m')}"),
    "numbers of columns": ("float[L,K]", "columns", f"{V} {COLUMN} {back('m')}"),
    "boxes": ("float[K,L,M]", "boxes", f"{IMAGE} {BOX} {back('m')}"),
    "boxes behind": ("float[L,M,K]", "behind", f"{IMAGE} {LAST} {back('m')}"),
    "a line of each box": (
        "float[K,L,M]",
        "boxes",
        f"""x0 = Gather <axis = 0> (images, i)  x1 = Gather <axis = 0> (x0, zero)
            m = Slice (x1, b, f, zero1)  {BOX} {back("m")}""",
    ),
    "boxes of rows": (
        "float[K,L,M,3]",
        "wide",
        f"""x0 = Gather <axis = 0> (deep, i)  x1 = Slice (x0, a, e, zero1)
            m = Slice (x1, b, f, one1)  {BOX} {back("m")}""",
    ),
    "a list of places": ("float[K,L]", "table", f"{V} {LISTED} {FILLED}"),
    "rows for a list of places": (*Y, f"{LISTED} {GIVEN}"),
    "parts of one tensor": (
        *Y,
        f"{PACKED} {ROW} {back('m')}".replace("(q0, a, e,", "(q0, zero1, much,").replace(
            "(all1, a, e,", "(all1, zero1, much,"
        ),
    ),
}
JOINS = {
    "sum": ("float[K,L]", "table", f"{V} {ROW} {JOIN.format('Add')} {back()}"),
    "sum of rows": (*Y, f"{OWN} {ROW} {JOIN.format('Add')} {back()}"),
    "difference": (*Y, f"{W} {ROW} {JOIN.format('Sub')} {back()}"),
    "turned difference": (*Y, f"{OWN} {ROW} q = Sub (m, old) {back()}"),
    "product": ("float[K,L]", "table", f"{LINE} {ROW} {JOIN.format('Mul')} {back()}"),
    "greatest": ("int64[K,L]", "ids", f"{K} {ROW} {JOIN.format('Max')} {back()}"),
    "any": ("bool[K,L]", "marks", f"{P} {ROW} {JOIN.format('Or')} {back()}"),
    "sum of columns": ("float[L,K,3]", "turned", f"{OWN} {COLUMN} {JOIN.format('Add')} {back()}"),
    "sum of boxes": ("float[K,L,M]", "boxes", f"{IMAGE} {BOX} {JOIN.format('Add')} {back()}"),
    "sum of a box's numbers": (
        "float[K,L,M]",
        "boxes",
        f"{V} {BOX} {JOIN.format('Add')} {back()}",
    ),
    "front of a column": (
        "float[L,K]",
        "columns",
        f"{V} {COLUMN} {JOIN.format('Add')} {back()}".replace(", a, e,", ", zero1, three1,"),
    ),
}


def feeds(length: int, seed: int = 0) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations; some ranges are empty, some pass the axis."""
    rng = np.random.default_rng((seed, length))
    size, other, rows = 7, 5, length + 2
    sizes = rng.integers(0, size + 1, length)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "first": rng.integers(-size - 2, size, length),
        "last": rng.integers(-3, size + 3, length),
        "left": rng.integers(-other, 3, length),
        "right": rng.integers(-2, other + 3, length),
        "v": floats(length),
        "w": floats(length, 3),
        "x": floats(length, size, 3),
        "images": floats(length, size, other),
        "k": rng.integers(-9, 9, length),
        "p": rng.random(length) < 0.5,
        "offsets": offsets,
        "packed": floats(int(offsets[-1]) + 1, 3),
        "start": floats(rows, size, 3),
        "turned": floats(size, rows, 3),
        "boxes": floats(rows, size, other),
        "behind": floats(size, other, rows),
        "deep": floats(length, size, other, 3),
        "wide": floats(rows, size, other, 3),
        "marks": rng.random((rows, size)) < 0.5,
        "ids": rng.integers(-9, 9, (rows, size)),
        "table": floats(rows, size),
        "columns": floats(size, rows),
    }


FEEDS = [feeds(length, seed) for length in LENGTHS for seed in (0, 1)]


def prove(text: str, opset: int = 18) -> None:
    before = model(text, opset)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *FEEDS) == len(FEEDS)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*WRITES, *JOINS])
def test_ranges_of_its_own_end_without_a_loop(name: str) -> None:
    prove(loop(*(WRITES | JOINS)[name]))


@pytest.mark.parametrize("name", ["rows", "boxes", "columns", "sum of rows"])
def test_a_target_without_control_flow_takes_them(name: str) -> None:
    before = model(loop(*(WRITES | JOINS)[name]))
    made = rewrite(before, target="portable").model
    assert same(before, made, *FEEDS) == len(FEEDS)


@pytest.mark.parametrize("name", ["mask", "a row for all places", "parts of one tensor"])
def test_an_old_opset_has_all_that_they_need(name: str) -> None:
    prove(loop(*WRITES[name]).replace("Shape <end = 1> (m)", "Slice (ms, zero1, one1)").replace(
        "m = Tanh (m0)", "m = Tanh (m0)  ms = Shape (m)"), 14)  # fmt: skip


def test_a_term_that_nothing_behind_the_map_reads_is_not_written() -> None:
    """The number of the iteration is a place in the Loop, and no value of what is batched."""
    found = read(model(loop(*WRITES["mask"]), 18))
    nodes = ir.from_proto(found.model).graph
    written = [node for node in nodes if ORIGIN_KEY in node.metadata_props]
    assert written
    assert all(any(is_used(value) for value in node.outputs) for node in written)


SOME = {
    "mask": "",
    "rows": OWN,
    "boxes": IMAGE,
    "columns": OWN,
    "sum of rows": OWN,
}


@pytest.mark.parametrize("name", SOME)
def test_ranges_of_some_iterations(name: str) -> None:
    """The rows of an iteration that writes nothing do not count among those that are written."""
    state, begin, body = (WRITES | JOINS)[name]
    inside = body.removeprefix(SOME[name]).replace("s2 =", "s3 =")
    choice = f"""{SOME[name]}  pe = Gather <axis = 0> (p, i)
            s2 = If (pe) <then_branch = yes () => ({state} s3) {{ {inside} }},
                else_branch = no () => ({state} s4) {{ s4 = Identity (s) }}>"""
    prove(loop(state, begin, choice))


def test_one_write_after_another() -> None:
    """What the second one adds to is what the first one left."""
    one = f"{OWN} {ROW} {back('m')}".replace("s2 =", "s1 =")
    two = f"""g_h = Shape (s1)  {part("mine", 1, "b", "f").replace("(h,", "(g_h,")}
            {grid("i1", "mine")}  r0 = Gather <axis = 0> (s1, i)  r1 = Slice (r0, b, f, zero1)
            {W.replace("m =", "mm =")}  q = Add (r1, mm)  like = Shape (r1)  {back()}"""
    names = "at1 n1 all1 g0 g1 t1 size_of_grid z0 z1 y0 y1 places like filling named rest whole u"
    for name in names.split():
        two = two.replace(f" {name} ", f" {name}_2 ").replace(f"({name},", f"({name}_2,")
        two = two.replace(f"({name})", f"({name}_2)").replace(f", {name})", f", {name}_2)")
        two = two.replace(f", {name},", f", {name}_2,")
    two = two.replace("ScatterND (s,", "ScatterND (s1,")
    prove(loop(*Y, f"{one}\n            {two}"))


def test_all_of_a_tensor() -> None:
    body = f"""{V} {counted(0, "down")}  places = Unsqueeze (down, minus1)
            size_of_grid = Shape (down)  like = Identity (h)  {back("m")}"""
    prove(loop("float[K,L]", "table", body))


def test_a_list_of_places_counted_from_the_end() -> None:
    """Places are no range then: -2 and -1 are behind what 0 to 2 reaches."""
    end = LISTED.replace("Range (zero32, most,", "Range (below, zero32,").replace(
        "place =", "below = Neg (most)  place ="
    )
    prove(loop("float[K,L]", "table", f"{V} {end} {FILLED}"))


APART = {
    "rows": (*Y, f"{PACKED} {ROW} {back('m')}"),
    "boxes": (
        "float[K,L,M]",
        "boxes",
        f"""{PACKED} line = Gather <axis = 1> (m, zero)
            big = Unsqueeze (line, one1)  {BOX} {back("big")}""",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_a_sample_of_nothing_reads_no_other_sample(name: str) -> None:
    """The model as given fails where it is written to places; so may this one, and no more."""
    before = model(loop(*APART[name]), 18)
    found = read(before)
    assert found.loops == 0
    given = dict(feeds(3))
    given["offsets"] = np.array([0, 2, 2, 4])
    given["packed"] = np.full((5, 3), 99, np.float32)
    given |= {"first": np.zeros(3, np.int64), "last": np.full(3, 2)}
    given |= {"left": np.zeros(3, np.int64), "right": np.full(3, 1)}
    begin = given[APART[name][1]] = np.zeros_like(given[APART[name][1]])
    with pytest.raises(BackendError):
        run(before, given)
    made = run(found.model, given)["r"]
    assert (made[[0, 2], :2, :1] == 1).all()
    assert (made[1] == begin[1]).all()


MISSES = {
    "a row that another one wrote": (
        *Y,
        f"{W} {ROW} {JOIN.format('Add')} {back()}".replace(
            "old = Slice (q0,", "j = Sub (i, one)  p0 = Gather <axis = 0> (s, j)  old = Slice (p0,"
        ).replace("like = Shape (old)", "ol = Slice (q0, a, e, zero1)  like = Shape (ol)"),
    ),
    "a place beside": (
        "float[K,L]",
        "table",
        f"{V} {ROW} {JOIN.format('Add')} {back()}".replace(
            "old = Slice (q0, a,", "a2 = Add (a, one1)  e2 = Add (e, one1)  old = Slice (q0, a2,"
        )
        .replace("a2, e,", "a2, e2,")
        .replace("like = Shape (old)", "ol = Slice (q0, a, e, zero1)  like = Shape (ol)"),
    ),
    "the row before": (
        *Y,
        f"{OWN} {ROW} {back('m')}".replace("Reshape (i1, column)", "Reshape (j1, column)").replace(
            "x0 =", "j = Sub (i, one)  j1 = Unsqueeze (j, zero1)  x0 ="
        ),
    ),
    "what was written is read": (
        *Y,
        f"{ROW} m = Tanh (old)  {back('m')}",
    ),
    "bounds that were written": (
        "int64[K,L]",
        "ids",
        f"""r0 = Gather <axis = 0> (s, zero)  c0 = Gather <axis = 0> (r0, zero)
            c = Unsqueeze (c0, zero1)  {K} {ROW} {back("m")}""".replace(", a, e,", ", a, c,"),
    ),
    "a quotient of integers": (
        "int64[K,L]",
        "ids",
        f"{K} {ROW} {JOIN.format('Div')} {back()}",
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(loop(*MISSES[name]), 18)
    found = read(before)
    assert found.loops == 1, [(d.path, d.notes) for d in found.decisions]
    assert same(before, found.model, *FEEDS) >= 2
