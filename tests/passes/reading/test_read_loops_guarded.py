"""Loops over sequences of which nothing is proven: fused behind a guard, or left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from passes.decisions import Verdict
from rewriter.proof.size_tests import lengths_beyond
from tests.passes.loops import model, read, rows, same


def over(element: str, body: str, inputs: str = "") -> str:
    """Return a graph whose Loop appends ``y`` for every element ``e`` of ``xs``."""
    return f"""g (seq({element}) xs{inputs}) => (seq(float[]) ys) {{
        t = Constant <value = bool {{1}}> ()
        two = Constant <value = float {{2}}> ()
        none = SequenceEmpty <dtype = 1> ()
        n = SequenceLength (xs)
        ys = Loop (n, t, none) <body = step (int64 i, bool c, seq(float[]) s)
            => (bool go, seq(float[]) s2) {{
            e = SequenceAt (xs, i)
            {body}
            s2 = SequenceInsert (s, y)
            go = Identity (t)
        }}>
    }}"""


ELEMENTWISE = "r = Relu (e)  m = Mul (r, two)  y = Sub (m, e)"
CASES = {
    "of_false_dimensions": over("float[3,4]", ELEMENTWISE),
    "of_unknown_dimensions": over("float[K,4]", ELEMENTWISE),
    "of_unknown_rank": over("float[]", "r = Relu (e)  y = Exp (r)"),
    "by_columns": over("float[K,4]", "m = Softmax <axis = 0> (e)  r = Mul (m, two)  y = Exp (r)"),
    "with_the_number": over("float[K,4]", "f = Cast <to = 1> (i)  r = Mul (e, f)  y = Exp (r)"),
    "beside_another": over(
        "float[K,4]", "d = SequenceAt (zs, i)  r = Mul (d, e)  y = Exp (r)", ", seq(float[K,4]) zs"
    ),
}
SHAPES: list[list[tuple[int, ...]]] = [
    [],
    [(3, 4)],
    [(3, 4)] * 5,
    [(3, 4), (1, 4), (5, 4)],
    [(0, 4), (2, 4)],
    [(2, 4)] * 9,
]


def feeds(name: str) -> list[dict[str, Any]]:
    made = []
    for shapes in SHAPES:
        feed = {"xs": [rows(*s, seed=i) for i, s in enumerate(shapes)]}
        if name == "beside_another":
            feed["zs"] = [rows(*s, seed=i + 50) for i, s in enumerate([*shapes, (7, 4)])]
        made.append(feed)
    return made


@pytest.mark.parametrize("name", CASES)
def test_behind_a_guard(name: str) -> None:
    before = model(CASES[name])
    found = read(before)
    assert [d.verdict for d in found.decisions] == [Verdict.GUARDED]
    assert same(before, found.model, *feeds(name)) == len(SHAPES)


def test_ranks_that_differ() -> None:
    before = model(CASES["of_unknown_rank"])
    mixed = {"xs": [rows(3), rows(2, 3), np.array(1, np.float32)]}
    assert same(before, read(before).model, mixed) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_auto_guards_a_loop_for_enough_samples(name: str) -> None:
    before = model(CASES[name])
    found = read(before, auto=True)
    assert [d.verdict for d in found.decisions] == [Verdict.GUARDED]
    (few, *_) = lengths_beyond(found.model)
    shapes = [[(3, 4)] * (few - 1), [(3, 4)] * few, [(2, 4)] * few + [(3, 4)]]
    made = [{"xs": [rows(*s, seed=i) for i, s in enumerate(one)]} for one in shapes]
    if name == "beside_another":
        made = [feed | {"zs": feed["xs"]} for feed in made]
    assert same(before, found.model, *made) == len(shapes)


def test_auto_leaves_a_loop_that_a_guard_makes_slower() -> None:
    text = over("float[100,100]", "r = Relu (e)  y = Sub (r, e)")
    (decision,) = read(model(text), auto=True).decisions
    assert decision.verdict is Verdict.KEPT
    assert "samples of 40,000 bytes are faster one by one" in [r.detail for r in decision.reasons]
    assert "an If could ask at run time" in decision.notes[-1]
