"""Several writes of one iteration to places that other iterations may write to, too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, int64[N,3] k, {start}) => ({state} r) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()
    minus = Constant <value = int64[1] {{-1}}> ()
    first = Constant <value = int64[2] {{0, 1}}> ()
    turned = Constant <value = int64[2] {{1, 0}}> ()
    third = Constant <value = int64[1] {{2}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r = Loop (n, t, b) <body = step (int64 i, bool cond, {state} s) => (bool go, {state} s2) {{
        e = Gather <axis = 0> (x, i)
        p = Gather <axis = 0> (k, i)
        {nodes}
        go = Identity (cond)
    }}>
}}"""
ROWS = {"start": "float[6,4] b", "state": "float[6,4]"}
GRID = {"start": "float[6,6] b", "state": "float[6,6]"}
PLACE = "p{0} = Gather <axis = 0> (p, {1})  u{0} = Unsqueeze (p{0}, zero1)"
ROW = "e{0} = {1} (e)  v{0} = Unsqueeze (e{0}, zero1)"
TWO = "  ".join(
    [
        PLACE.format(0, "zero1"),
        PLACE.format(1, "third"),
        ROW.format(0, "Neg"),
        ROW.format(1, "Exp"),
    ]
)
CASES = {
    "two_rows": (
        ROWS,
        f"{TWO}  q0 = Reshape (p0, m11)  q1 = Reshape (p1, m11)"
        "  a = ScatterND (s, q0, v0)  s2 = ScatterND (a, q1, v1)",
    ),
    "three_rows": (
        ROWS,
        f"{TWO}  {PLACE.format(2, 'one1')}  {ROW.format(2, 'Tanh')}"
        "  q0 = Reshape (p0, m11)  q1 = Reshape (p1, m11)  q2 = Reshape (p2, m11)"
        "  a = ScatterND (s, q0, v0)  c = ScatterND (a, q1, v1)  s2 = ScatterND (c, q2, v2)",
    ),
    "both_ways_of_an_edge": (
        GRID,
        "f0 = Gather <axis = 0> (p, first)  f1 = Gather <axis = 0> (p, turned)"
        "  q0 = Unsqueeze (f0, zero1)  q1 = Unsqueeze (f1, zero1)"
        "  w = ReduceMax <keepdims = 0> (e)  w0 = Unsqueeze (w, zero1)  w1 = Neg (w0)"
        "  a = ScatterND (s, q0, w0)  s2 = ScatterND (a, q1, w1)",
    ),
}


def text(name: str) -> str:
    kinds, nodes = CASES[name]
    made = TEXT.format(nodes=nodes, **kinds)
    return made.replace(
        "shape = Shape", "m11 = Constant <value = int64[2] {-1, 1}> ()  shape = Shape", 1
    )


def feeds(n: int, shape: tuple[int, int]) -> Mapping[str, np.ndarray]:
    """Make rows, places that come again and again, and what is written to."""
    rng = np.random.default_rng(n)
    return {
        "x": rng.standard_normal((n, 4)).astype(np.float32),
        "k": rng.integers(-6, 6, (n, 3)),
        "b": rng.standard_normal(shape).astype(np.float32),
    }


@pytest.mark.parametrize("target", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_last_holds(name: str, target: str) -> None:
    before = model(text(name), 18)
    made = rewrite(before, target=target).model
    assert not operators(made)["Loop"]
    shape = (6, 6) if CASES[name][0] is GRID else (6, 4)
    many = [feeds(n, shape) for n in LENGTHS]
    assert same(before, made, *many) == len(many)


WIDE = {"start": "float[B,B] b", "state": "float[B,B]"}
NUMBERS = """two1 = Constant <value = int64[1] {2}> ()  four1 = Constant <value = int64[1] {4}> ()
        i1 = Unsqueeze (i, zero1)  w = ReduceMax <keepdims = 0> (e)  w0 = Unsqueeze (w, zero1)
        w1 = Neg (w0)"""
ACROSS = {
    "a_row_and_a_column": "c0 = Concat <axis = 0> (i1, two1)  c1 = Concat <axis = 0> (four1, i1)",
    "a_column_and_a_row": "c0 = Concat <axis = 0> (two1, i1)  c1 = Concat <axis = 0> (i1, four1)",
    "two_columns": "c0 = Concat <axis = 0> (two1, i1)  c1 = Concat <axis = 0> (four1, i1)",
    "a_row_and_the_next_one": "n1 = Add (i1, one1)  c0 = Concat <axis = 0> (i1, two1)"
    "  c1 = Concat <axis = 0> (n1, two1)",
    "the_diagonal_and_a_column": "c0 = Concat <axis = 0> (i1, i1)  c1 = Concat <axis = 0> (two1, i1)",
}


@pytest.mark.parametrize("name", ACROSS)
def test_places_along_two_axes_meet(name: str) -> None:
    """``s[i, 2] = a; s[4, i] = b`` writes to one place in iterations 2 and 4."""
    nodes = f"""{NUMBERS}  {ACROSS[name]}
        q0 = Unsqueeze (c0, zero1)  q1 = Unsqueeze (c1, zero1)
        a = ScatterND (s, q0, w0)  s2 = ScatterND (a, q1, w1)"""
    before = model(TEXT.format(nodes=nodes, **WIDE), 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    many = [feeds(n, (n + 5, n + 5)) for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)


OF_ANY_RANK = """g (float[N,4] x, int64[1,K] p, int64[1,L] q, float[4,4,4] b) => (float[4,4,4] r) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    square1 = Constant <value = int64[2] {1, 1}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    r = Loop (n, t, b) <body = step (int64 i, bool on, float[4,4,4] s)
            => (bool on2, float[4,4,4] s2) {
        on2 = Identity (on)
        e = Gather <axis = 0> (x, i)
        i1 = Reshape (i, square1)
        c0 = Concat <axis = 1> (p, i1)
        c1 = Concat <axis = 1> (q, i1)
        v0 = Unsqueeze (e, zero1)
        v1 = ReduceMax <keepdims = 0, axes = [1]> (v0)
        a = ScatterND (s, c0, v0)
        s2 = ScatterND (a, c1, v1)
    }>
}"""


def test_places_along_axes_that_nothing_tells_meet() -> None:
    """``s[p, i] = a; s[q0, q1, i] = b`` is one place where ``q`` is ``p, j``, for some ``i``."""
    before = model(OF_ANY_RANK)
    found = read(before)
    assert found.loops == 1
    given = {"p": np.array([[1]]), "q": np.array([[1, 3]]), "b": np.zeros((4, 4, 4), np.float32)}
    many = [{"x": feeds(n, (0, 0))["x"], **given} for n in (0, 1, 4)]
    assert same(before, found.model, *many) == len(many)


SOME = {
    "by_a_choice": "a0 = ScatterND (s, q0, v0)  a = Where (flag, a0, s)  s2 = ScatterND (a, q1, v1)",
    "the_second_by_a_choice": "a = ScatterND (s, q0, v0)  a0 = ScatterND (a, q1, v1)"
    "  s2 = Where (flag, a0, a)",
    "in_a_branch": """a = If (flag) <
            then_branch = one () => (float[B,4] a0) { a0 = ScatterND (s, q0, v0) },
            else_branch = other () => (float[B,4] a1) { a1 = Identity (s) }>
        s2 = ScatterND (a, q1, v1)""",
}


@pytest.mark.parametrize("name", SOME)
def test_a_write_that_some_iterations_make_only(name: str) -> None:
    """Those that another iteration meets are not made in all of them."""
    nodes = f"""{ROW.format(0, "Neg")}  {ROW.format(1, "Exp")}  i1 = Unsqueeze (i, zero1)
        n1 = Add (i1, one1)  q0 = Unsqueeze (i1, minus)  q1 = Unsqueeze (n1, minus)
        some = ReduceMax <keepdims = 0> (e0)  none = Cast <to = 1> (zero)
        flag = Greater (some, none)  {SOME[name]}"""
    before = model(TEXT.format(nodes=nodes, start="float[B,4] b", state="float[B,4]"), 18)
    many = [feeds(n, (n + 1, 4)) for n in LENGTHS]
    assert same(before, read(before).model, *many) == len(many)


NESTED = """g (float[N,4] x) => (float[N,N] r) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    minus1 = Constant <value = int64[1] {-1}> ()
    half = Constant <value = float {0.5}> ()
    shape = Shape <start = 0, end = 1> (x)
    n = Gather <axis = 0> (shape, zero)
    square = Concat <axis = 0> (shape, shape)
    b = ConstantOfShape (square)
    r = Loop (n, t, b) <body = rows (int64 i, bool on, float[N,N] s) => (bool on2, float[N,N] s2) {
        on2 = Identity (on)
        s2 = Loop (n, t, s) <body = columns (int64 j, bool go, float[N,N] d)
                => (bool go2, float[N,N] d2) {
            go2 = Identity (go)
            one = Gather <axis = 0> (x, i)
            other = Gather <axis = 0> (x, j)
            less = Mul (other, half)
            apart = Sub (one, less)
            v = ReduceMax <keepdims = 0> (apart)
            v1 = Unsqueeze (v, zero1)
            w1 = Neg (v1)
            i1 = Unsqueeze (i, zero1)
            j1 = Unsqueeze (j, zero1)
            c0 = Concat <axis = 0> (i1, j1)
            c1 = Concat <axis = 0> (j1, i1)
            q0 = Unsqueeze (c0, zero1)
            q1 = Unsqueeze (c1, zero1)
            a = ScatterND (d, q0, v1)
            d2 = ScatterND (a, q1, w1)
        }>
    }>
}"""


def test_both_ways_of_all_pairs() -> None:
    before = model(NESTED, 18)
    made = rewrite(before, target="portable").model
    assert not operators(made)["Loop"]
    many = [{"x": feeds(n, (0, 0))["x"]} for n in (0, 1, 2, 7)]
    assert same(before, made, *many) == len(many)


NEAR = {
    "what_the_first_wrote": "o = GatherND (a, q0)  o2 = Mul (o, v1)  s2 = ScatterND (a, q1, o2)",
    "what_it_began_with": "o = GatherND (s, q0)  o2 = Sub (v1, o)  s2 = ScatterND (a, q1, o2)",
}


@pytest.mark.parametrize("name", NEAR)
def test_what_reads_what_was_written_stays(name: str) -> None:
    nodes = text("two_rows").replace("s2 = ScatterND (a, q1, v1)", NEAR[name])
    before = model(nodes, 18)
    found = read(before)
    assert found.loops == 1
    many = [feeds(n, (6, 4)) for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)
