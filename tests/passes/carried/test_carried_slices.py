"""Writes to slices of what a loop carries, as PyTorch's exporter writes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.passes.carried.carried import LENGTHS, loop_over_slices
from tests.passes.carried.places import CONSTANTS, counted, grid
from tests.passes.loops import model, read, same

INPUTS = "float[T,3] x, int64[N] lengths, int64[N] k, int64[N] j, float[R,M,3] start"
STATE = "float[R,M,3]"


def loop(body: str, state: str = STATE, begin: str = "Identity (start)") -> str:
    """Return a graph whose Loop carries ``s`` and writes to it; ``h`` is the shape of ``s``."""
    beside = """size1 = Unsqueeze (size, zero1)
            i1 = Unsqueeze (i, zero1)
            h = Shape (s)"""
    return loop_over_slices(
        INPUTS, state, begin, f"{beside}\n            {body}", constants=CONSTANTS
    )


WHERE = f"""{counted(1)}
            mine = Slice (all, zero1, size1, zero1, one1)
            {grid("i1", "mine")}
            row = Gather <axis = 0> (s, i)
            target = Slice (row, zero1, size1, zero1, one1)
            like = Shape (target)"""
BACK = """behind = Slice (h, two1, far, zero1)
            whole = Concat <axis = 0> (size_of_grid, behind)
            u = Reshape <allowzero = 1> (v, whole)
            s2 = ScatterND (s, places, u)"""
WRITES = {
    "rows_of_a_slice": loop(f"{WHERE}  v = Expand (e, like)  {BACK}"),
    "one_row_for_all": loop(f"{WHERE}  q = Slice (x, zero1, one1)  v = Expand (q, like)  {BACK}"),
    "one_number_for_all": loop(f"{WHERE}  v = Expand (half, like)  {BACK}"),
    "not_expanded": loop(f"{WHERE}  v = Tanh (e)  {BACK}"),
}


def feeds(length: int, least: int = 0) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations, whose slices have at least so many rows."""
    rng = np.random.default_rng(length)
    lengths = rng.integers(least, 5, length)
    return {
        "x": rng.standard_normal((int(lengths.sum()) + 4, 3)).astype(np.float32),
        "lengths": lengths,
        "k": rng.integers(0, 3, length),
        "j": rng.integers(-2, 2, length),
        "start": rng.standard_normal((2 * length + 3, 5, 3)).astype(np.float32),
    }


@pytest.mark.parametrize("name", WRITES)
def test_a_slice_that_is_written_ends_without_a_loop(name: str) -> None:
    before = model(WRITES[name])
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


def test_one_row_that_is_written_to_a_slice_of_several() -> None:
    """One row goes to all places; any other number of rows is an error in the Loop, too."""
    text = WRITES["rows_of_a_slice"].replace("o = Unsqueeze (to, zero1)", "o = Add (a, one1)")
    before = model(text)
    found = read(before)
    assert same(before, found.model, *(feeds(n, 1) for n in LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


CELL = """ki = Gather <axis = 0> (k, i)  ji = Gather <axis = 0> (j, i)
            k1 = Unsqueeze (ki, zero1)  j1 = Unsqueeze (ji, zero1)"""
ROW_SUM = f"""{CELL}  h0 = Gather <axis = 0> (s, ji)  q = Gather <axis = 0> (x, zero)
            w = Add (h0, q)  h1 = Shape (h0)  w2 = Expand (w, h1)
            p = Unsqueeze (j1, minus1)  rest = Slice (h, one1, far, zero1)
            c = Shape (j1)  whole = Concat <axis = 0> (c, rest)  u = Reshape (w2, whole)
            s2 = ScatterND (s, p, u)"""


def flat(first: str, second: str) -> str:
    """Read and write one cell of a table by two numbers, as PyTorch's exporter does."""
    return f"""{CELL}  m = Gather <axis = 0> (h, one1)
            f = Flatten <axis = 2> (s)  f1 = Mul ({first}i, m)  f2 = Add ({second}i, f1)
            b = Gather <axis = 0> (f, f2)  b1 = Reshape (b, minus1)  b2 = Reshape (b1, none)
            w = Add (b2, half)  {grid(f"{first}1", f"{second}1")}
            u = Reshape (w, size_of_grid)  s2 = ScatterND (s, places, u)"""


CELLS = {
    "sum_of_rows": (ROW_SUM, "float[R,3]", "Gather <axis = 1> (start, zero)"),
    "chained_read": (
        f"""{CELL}  r1 = Gather <axis = 0> (s, ji)  r2 = Gather <axis = 0> (r1, ki)
            w = Sub (r2, half)  {grid("j1", "k1")}
            u = Reshape (w, size_of_grid)  s2 = ScatterND (s, places, u)""",
        "float[R,M]",
        "Gather <axis = 2> (start, zero)",
    ),
}


@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("name", CELLS)
def test_what_stands_at_a_place_is_added_to(name: str, opset: int) -> None:
    body, state, begin = CELLS[name]
    before = model(loop(body, state, begin), opset)
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


def test_rows_of_a_known_shape_are_written_without_arithmetic_on_sizes() -> None:
    found = read(model(loop(*CELLS["sum_of_rows"]), 18))
    assert not {"Div", "Less", "ReduceProd", "Size"} & found.operators.keys()
    assert found.operators["ScatterElements"] == 1
    assert found.operators["Reshape"] == 2  # one of them checks that there is a row for each


def spoilt(length: int) -> Mapping[str, np.ndarray]:
    """Make inputs with numbers that are none, and infinities."""
    rng, feed = np.random.default_rng(length), feeds(length, 1)
    odd = [0, 0, 0, np.nan, np.inf, -np.inf]
    marks = {name: rng.choice(odd, feed[name].shape) for name in ("x", "start")}
    return {**feed, **{n: (feed[n] + m).astype(np.float32) for n, m in marks.items()}}


SPOILT = [spoilt(length) for length in LENGTHS]


@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_the_extreme_of_what_stands_at_a_place(operator: str) -> None:
    """A NaN stays, whichever of the two it is, and at no other place."""
    body = f"""ji = Gather <axis = 0> (j, i)  h0 = Gather <axis = 0> (s, ji)
            q = Gather <axis = 0> (x, i)  w = {operator} (h0, q)
            h1 = Shape (h0)  w2 = Expand (w, h1)  j1 = Unsqueeze (ji, zero1)
            p = Unsqueeze (j1, minus1)  rest = Slice (h, one1, far, zero1)
            c = Shape (j1)  whole = Concat <axis = 0> (c, rest)  u = Reshape (w2, whole)
            s2 = ScatterND (s, p, u)"""
    before = model(loop(body, "float[R,3]", "Gather <axis = 1> (start, zero)"), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS), *SPOILT) == 2 * len(LENGTHS)


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_the_extreme_that_the_model_s_own_scatter_finds(reduction: str) -> None:
    """What becomes of a NaN is what the runtime's scatter makes of it, one row after the other."""
    body = f"""ji = Gather <axis = 0> (j, i)  q = Gather <axis = 0> (x, i)
            j1 = Unsqueeze (ji, zero1)  s2 = ScatterND <reduction = "{reduction}"> (s, j1, q)"""
    before = model(loop(body, "float[R,3]", "Gather <axis = 1> (start, zero)"), 18)
    found = read(before)
    assert found.loops == found.operators["IsNaN"] == 0
    assert same(before, found.model, *map(feeds, LENGTHS), *SPOILT) == 2 * len(LENGTHS)


COUNTED = "Gather <axis = 2> (start, zero)"


def test_a_cell_that_is_read_by_its_number_in_the_table() -> None:
    body = flat("j", "k").replace("ki = Gather <axis = 0> (k, i)", POSITION)
    before = model(loop(body, "float[R,M]", COUNTED), 18)
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


def test_a_cell_that_is_named_by_two_numbers_without_an_axis() -> None:
    """``m[a, b] += 1`` is exported so where both are known to be numbers: a table of confusions."""
    body = flat("j", "k").replace("ki = Gather <axis = 0> (k, i)", POSITION)
    body = body.replace("b = Gather", "f3 = Shape (f2)  b = Gather").replace(
        "(b1, none)", "(b1, f3)"
    )
    for name in "jk":
        body = body.replace(f"Reshape ({name}1, column)", f"Identity ({name}i)")
        body = body.replace(f"Identity ({name}1)", f"Identity ({name}i)")
    before = model(loop(body, "float[R,M]", COUNTED), 18)
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]


POSITION = """xi = Gather <axis = 0> (start, i)  x0 = Gather <axis = 0> (xi, zero)
            ki = ArgMax <axis = 0, keepdims = 0> (x0)"""


def test_a_cell_whose_number_may_mean_another_row_stays() -> None:
    """A negative second number reads from the row before, and writes to its own."""
    before = model(loop(flat("k", "j"), "float[R,M]", COUNTED), 18)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


ANYWHERE = WHERE.replace("g0 = Reshape (i1,", f"{CELL}  g0 = Reshape (k1,")


def test_slices_that_overlap() -> None:
    """The last one that reaches a place holds."""
    before = model(loop(f"{ANYWHERE}  v = Expand (e, like)  {BACK}"))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)


MISSES = {
    "what_was_written_is_read": loop(f"{WHERE}  d = Tanh (target)  v = Expand (d, like)  {BACK}"),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_stays_a_loop(name: str) -> None:
    before = model(MISSES[name])
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(feeds, (1, 2, 3, 7)))


def windows(step: str) -> str:
    """Write two rows each, so many rows from those of the last iteration."""
    body = f"""w0 = Mul (i, {step})  w1 = Add (w0, two)  w2 = Unsqueeze (w0, zero1)
            w3 = Unsqueeze (w1, zero1)  {counted(0)}
            mine = Slice (all, w2, w3, zero1, one1)  places = Unsqueeze (mine, minus1)
            q = Slice (x, zero1, two1, zero1)  r0 = Gather <axis = 0> (k, i)
            c = Cast <to = 1> (r0)  v = Mul (q, c)  s2 = ScatterND (s, places, v)"""
    return loop(body, "float[R,3]", "Gather <axis = 1> (start, zero)")


@pytest.mark.parametrize("step", ["two", "one"])
def test_windows_that_lie_apart_or_overlap(step: str) -> None:
    before = model(windows(step))
    found = read(before)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
