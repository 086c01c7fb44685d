"""Sequences and optional values inside of a body."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import (
    BATCHES,
    Case,
    constant,
    decline_of,
    mapped,
    prove,
    shared,
)

X = mapped((4, 3))
MASK = mapped((3,), dtype=np.bool_)
CASES = [
    Case(
        "construct and read",
        "s = SequenceConstruct(x, x) y = SequenceAt(s, i)",
        {"x": X, "i": shared(np.array(-1))},
    ),
    Case(
        "construct of stacked and shared elements",
        "s = SequenceConstruct(x, w) y = ConcatFromSequence<axis = 0>(s)",
        {"x": X, "w": shared(np.ones((2, 3), np.float32))},
    ),
    Case(
        "empty, insert, erase",
        "e = SequenceEmpty() a = SequenceInsert(e, x) n = Neg(x) b = SequenceInsert(a, n, i) "
        "c = SequenceErase(b, j) y = SequenceAt(c, i)",
        {"x": X, "i": constant(np.array(0)), "j": shared(np.array(1))},
    ),
    Case(
        "insert of a shared element",
        "s = SequenceConstruct(x) t = SequenceInsert(s, w) y = ConcatFromSequence<axis = -1, new_axis = 1>(t)",
        {"x": X, "w": shared(np.ones((4, 3), np.float32))},
    ),
    Case(
        "length",
        "s = SequenceConstruct(x, x) n = SequenceLength(s) f = Cast<to = 1>(n) y = Mul(x, f)",
        {"x": X},
    ),
    Case(
        "split and join",
        "s = SplitToSequence<axis = 0>(x, n) y = ConcatFromSequence<axis = 0>(s)",
        {"x": X, "n": constant(np.array([1, 3]))},
    ),
    Case(
        "split into single rows and join along a new axis",
        "s = SplitToSequence<axis = -1, keepdims = 0>(x) y = ConcatFromSequence<axis = 0, new_axis = 1>(s)",
        {"x": X},
    ),
    Case(
        "split evenly",
        "s = SplitToSequence<axis = 1>(x, n) y = SequenceAt(s, i)",
        {"x": X, "n": shared(np.array(2)), "i": constant(np.array(1))},
    ),
    Case("optional", "o = Optional(x) y = OptionalGetElement(o)", {"x": X}),
    Case("element of a tensor", "y = OptionalGetElement(x)", {"x": X}),
    Case(
        "whether an optional value is there",
        "o = Optional(x) b = OptionalHasElement(o) y = And(m, b)",
        {"x": X, "m": MASK},
    ),
    Case(
        "whether a tensor is there", "b = OptionalHasElement(x) y = And(m, b)", {"x": X, "m": MASK}
    ),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


PLACES = mapped(*(np.array(n) for n in (0, 1, 0)))
DECLINES = [
    Case(
        "SequenceAt",
        "s = SequenceConstruct(x, x) y = SequenceAt(s, i)",
        {"x": X, "i": PLACES},
    ),
    Case(
        "SplitToSequence",
        "s = SplitToSequence<axis = 0>(x, n) y = SequenceAt(s, i)",
        {
            "x": X,
            "n": mapped(*(np.array([k, 4 - k]) for k in (1, 2, 3))),
            "i": constant(np.array(0)),
        },
    ),
]


@pytest.mark.parametrize("case", DECLINES, ids=str)
def test_rule_declines(case: Case) -> None:
    assert decline_of(case)[0][0] == case.name
