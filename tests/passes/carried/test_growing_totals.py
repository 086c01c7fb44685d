"""Totals of terms that are not proven to be no larger than what the loop begins with."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import kept, prove, rows

TEXT = """g (float[A,4] w, float[N,B,C] x) => (float[P,Q] s, {y} y) {{
    zero = Constant <value = int64 {{0}}> ()  yes = Constant <value = bool {{1}}> ()
    shape = Shape (x)  n = Gather (shape, zero)
    s, y = Loop (n, yes, w) <body = b (int64 i, bool on, float[] t) => (bool on2, float[] t2, float[] c) {{
        e = Gather (x, i)
        {body}
        on2 = Identity (on)
    }}>
}}"""
SHAPES = [
    ((3, 4), (3, 4)),
    ((1, 4), (3, 4)),
    ((3, 4), (1, 4)),
    ((3, 4), (3, 1)),
    ((1, 4), (1, 1)),
]
EMPTY = [*SHAPES, ((3, 4), (0, 4)), ((3, 4), (2, 5)), ((0, 4), (3, 4))]


def feed(n: int, begin: tuple[int, ...], term: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"w": rows(*begin), "x": rows(n, *term, seed=1)}


FEEDS = [feed(n, *shapes) for n in (1, 2, 7) for shapes in SHAPES]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Min"])
def test_the_last_total_has_the_shape_that_the_loop_gives_it(op_type: str) -> None:
    body = f"t2 = {op_type} (t, e)  c = ReduceSum <keepdims = 0> (e)"
    prove(TEXT.format(y="float[M]", body=body), *FEEDS, *(feed(0, *shapes) for shapes in EMPTY))


@pytest.mark.parametrize("op_type", ["Add", "Max"])
def test_a_term_of_fewer_axes_than_the_total(op_type: str) -> None:
    body = f"t2 = {op_type} (t, e)  c = ReduceSum <keepdims = 0> (e)"
    text = TEXT.format(y="float[M]", body=body).replace("float[N,B,C]", "float[N,C]")
    shapes = [((3, 4), (4,)), ((3, 4), (1,)), ((0, 4), (4,))]
    prove(text, *(feed(n, *one) for n in (0, 1, 7) for one in shapes))


@pytest.mark.parametrize(
    "body", ["t2 = Add (t, e)  c = Identity (t2)", "t2 = Sub (t, e)  c = Identity (t2)"]
)
def test_totals_that_are_collected_behind_each_iteration(body: str) -> None:
    prove(TEXT.format(y="float[M,R,S]", body=body), *FEEDS)


@pytest.mark.parametrize(
    "body",
    [
        "t2 = Add (t, e)  c = Exp (t)",  # the first one may be smaller than the others
        "h = Shape (t)  f = Expand (e, h)  t2 = Add (t, e)  c = Exp (f)",
        """o = ReduceSum <keepdims = 0> (e)  k = Less (o, o)
        t2 = If (k) <then_branch = u () => (float[] v) { v = Add (t, e) },
                     else_branch = q () => (float[] r) { r = Identity (t) }>
        c = Exp (e)""",
    ],
)
def test_what_depends_on_the_shape_of_a_total_stays(body: str) -> None:
    kept(TEXT.format(y="float[M,R,S]", body=body))
