"""Products with the first rows of one tensor, as causal attention has them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.passes.carried.carried import SCALARS
from tests.passes.loops import model, read, same

INPUTS = "float[N,4] q, float[M,4] k, float[M,5] v, float[2,N,4] qs, float[2,M,4] ks, int64[N] b"


def loop(body: str, result: str = "float[N,1,5]", *, count: str = "n = Identity (rows)") -> str:
    """Return a graph whose Loop collects ``y`` of each iteration."""
    _, _, own = result.partition(",")
    return f"""g ({INPUTS}) => ({result} r)
    {{ {SCALARS}
        four = Constant <value = int64 {{4}}> ()
        three = Constant <value = int64 {{3}}> ()
        two1 = Constant <value = int64[1] {{2}}> ()
        shape = Shape (q)
        rows = Gather <axis = 0> (shape, zero)
        {count}
        r = Loop (n, t) <body = step (int64 i, bool cond) => (bool go, float[{own} y) {{
            from = Unsqueeze (i, zero1)
            to = Add (from, one1)
            {body}
            go = Identity (cond)
        }}>
    }}"""


ROW = "e = Slice (q, from, to, zero1)"
FIRST = "ki = Slice (k, zero1, to, zero1)  vi = Slice (v, zero1, to, zero1)"
WEIGHED = "t1 = Transpose (ki)  s = MatMul (e, t1)  w = Softmax (s)  y = MatMul (w, vi)"
HEADS = """e = Slice (qs, from, to, one1)
            ki = Slice (ks, zero1, to, one1)  t1 = Transpose <perm = [0, 2, 1]> (ki)
            s = MatMul (e, t1)  w = Softmax (s)  y = MatMul (w, ki)"""
GIVEN = "at = Gather <axis = 0> (b, i)  to2 = Unsqueeze (at, zero1)"
GIVEN_ROWS = "ki = Slice (k, zero1, to2, zero1)  vi = Slice (v, zero1, to2, zero1)"
TWICE = "count2 = Mul (to, two1)  ki = Slice (k, zero1, count2, zero1)"
WHOLE = {
    "causal": loop(f"{ROW} {FIRST} {WEIGHED}"),
    "causal_without_softmax": loop(
        f"{ROW} {FIRST} t1 = Transpose (ki)  s = MatMul (e, t1)  w = Tanh (s)  y = MatMul (w, vi)"
    ),
    "heads": loop(
        HEADS,
        "float[N,2,1,4]",
        count="both = Shape (qs)  n = Gather <axis = 0> (both, one)",
    ),
    "rows_of_all_by_number": loop(f"{ROW} {GIVEN} {GIVEN_ROWS} {WEIGHED}"),
    "two_more_each_time": loop(f"{ROW} {TWICE} vi = Slice (v, zero1, count2, zero1) {WEIGHED}"),
    "weights_of_their_own": loop(
        f"{ROW} {FIRST} t1 = Transpose (ki)  s = MatMul (e, t1)  w = Neg (s) y = MatMul (w, vi)"
    ),
}


def feeds(rows: int, others: int) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of queries, and one of keys and values."""
    rng = np.random.default_rng(rows)
    dims = {"q": (rows, 4), "k": (others, 4), "v": (others, 5), "qs": (2, rows, 4)}
    dims["ks"] = (2, others, 4)
    made = {name: rng.standard_normal(d).astype(np.float32) for name, d in dims.items()}
    return {**made, "b": rng.integers(0, others + 2, rows)}


def poisoned(rows: int, value: float) -> Mapping[str, np.ndarray]:
    """Make the inputs with a number in the middle of keys and values."""
    given = {name: array.copy() for name, array in feeds(rows, rows).items()}
    given["v"][rows // 2, 1] = value
    given["k"][rows // 2 + 1, 1] = value
    given["ks"][1, rows // 2, 1] = value
    return given


LENGTHS = [(0, 0), (1, 1), (2, 2), (7, 7), (64, 64), (3, 9), (9, 3), (2, 0)]
FEEDS = [feeds(*lengths) for lengths in LENGTHS]
FEEDS += [poisoned(7, value) for value in (np.inf, -np.inf, np.nan)]


@pytest.mark.sampled
@pytest.mark.parametrize("lacks", [(), ("Loop", "Scan", "If")], ids=["", "without If"])
@pytest.mark.parametrize("name", WHOLE)
def test_no_row_is_copied_for_a_sample(name: str, lacks: tuple[str, ...]) -> None:
    before = model(WHOLE[name])
    found = read(before, lacks=frozenset(lacks))
    assert found.loops == 0 or name == "rows_of_all_by_number", found.details
    assert found.operators["MatMul"] <= (2 if lacks else 5)
    assert same(before, found.model, *FEEDS) == len(FEEDS)


CHUNKS = """rows3 = Add (rows, three)  n = Div (rows3, four)"""
CHUNK = """four1 = Constant <value = int64[1] {4}> ()  begin = Mul (from, four1)
            over = Add (begin, four1)  all1 = Unsqueeze (rows, zero1)  end = Min (over, all1)
            e = Slice (q, begin, end, zero1)
            ki = Slice (k, zero1, end, zero1)  vi = Slice (v, zero1, end, zero1)"""


def chunked() -> str:
    """Return a graph that appends what each chunk of queries sees."""
    return f"""g ({INPUTS}) => (float[R,5] r)
    {{ {SCALARS}
        four = Constant <value = int64 {{4}}> ()
        three = Constant <value = int64 {{3}}> ()
        none = Constant <value = int64[2] {{0, 5}}> ()
        shape = Shape (q)
        rows = Gather <axis = 0> (shape, zero)
        {CHUNKS}
        begin0 = ConstantOfShape (none)
        r = Loop (n, t, begin0) <body = step (int64 i, bool cond, float[R,5] acc)
            => (bool go, float[R2,5] acc2) {{
            from = Unsqueeze (i, zero1)
            {CHUNK}
            {WEIGHED}
            acc2 = Concat <axis = 0> (acc, y)
            go = Identity (cond)
        }}>
    }}"""


def test_chunks_see_what_stands_before_them() -> None:
    before = model(chunked())
    found = read(before)
    assert found.loops == 0, found.details
    assert same(before, found.model, *FEEDS) == len(FEEDS)


OTHERS = {
    "the_last_rows": loop(
        f"{ROW} far = Constant <value = int64[1] {{99}}> ()"
        "  ki = Slice (k, from, far, zero1)  vi = Slice (v, from, far, zero1)"
        f" {WEIGHED}"
    ),
    "backwards": loop(
        f"{ROW} back = Constant <value = int64[1] {{-1}}> ()  low = Constant <value = int64[1] "
        "{-99}> ()  ki = Slice (k, from, low, zero1, back)  vi = Slice (v, from, low, zero1, back)"
        f" {WEIGHED}"
    ),
    "other_values": loop(f"{ROW} {FIRST} vi2 = Exp (vi) {WEIGHED.replace('vi)', 'vi2)')}"),
    "keys_and_values_of_several_lengths": loop(
        f"{ROW} {GIVEN} ki = Slice (k, zero1, to, zero1)  vi = Slice (v, zero1, to2, zero1)"
        f" {WEIGHED}"
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_near_miss_is_right(name: str) -> None:
    before = model(OTHERS[name])
    ran = same(before, read(before).model, *FEEDS)
    assert ran == len(FEEDS) if name != "keys_and_values_of_several_lengths" else ran > 0
