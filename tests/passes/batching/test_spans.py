"""Slices whose bounds differ from sample to sample."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of

FULL = np.arange(12, dtype=np.float32).reshape(6, 2)
FRONT = constant(np.array([0]))
DATA = {
    "shared": shared(FULL),
    "stacked": mapped(FULL, -FULL, FULL * 2),
    "packed": ragged(2, lengths=(4, 0, 6)),
}


def bound(*numbers: int, dtype: Any = np.int64) -> Operand:
    return mapped(*(np.array([n], dtype) for n in numbers))


LOW, HIGH = bound(1, 0, 2), bound(3, 2, 9)
BOUNDS = {
    "both": {"s": LOW, "e": HIGH},
    "ends": {"s": FRONT, "e": HIGH},
    "starts": {"s": LOW, "e": shared(np.array([4]))},
    "from the back": {"s": bound(-3, -9, -1), "e": bound(-1, -2, 6)},
    "that leave nothing": {"s": bound(3, 2, 0), "e": bound(1, 2, 1)},
    "beyond 32 bits": {"s": bound(1, 0, 2), "e": bound(2**31, 2**31 + 5, 2**32 - 1)},
    "a constant beyond 32 bits": {"s": LOW, "e": constant(np.array([2**31]))},
    "a constant far in front": {"s": constant(np.array([-(2**31) - 1])), "e": HIGH},
    "the last number": {"s": LOW, "e": constant(np.array([2**63 - 1]))},
    "of int32": {"s": bound(1, 0, 2, dtype=np.int32), "e": bound(3, 1, 5, dtype=np.int32)},
}
TWO = {
    "s": mapped(*(np.array(n) for n in ([0, 0], [1, 0], [0, 1]))),
    "e": shared(np.array([2, 2])),
}
CASES = [
    *(
        RaggedCase(f"{kind} data, {name}", "y = Slice(x, s, e)", {"x": data, **bounds})
        for kind, data in DATA.items()
        for name, bounds in BOUNDS.items()
    ),
    *(
        RaggedCase(
            f"{kind} data, axes and steps",
            "y = Slice(x, s, e, a, t)",
            {"x": data, **BOUNDS["both"], "a": FRONT, "t": constant(np.array([1]))},
        )
        for kind, data in DATA.items()
    ),
    *(
        RaggedCase(
            f"{kind} data, a step beyond all rows, {step}",
            "y = Slice(x, s, e, a, t)",
            {
                "x": DATA[kind],
                "s": bound(1, 0, 2),
                "e": bound(3, 2, -9),
                "a": FRONT,
                "t": constant(np.array([step])),
            },
        )
        for kind in ("stacked", "packed")
        for step in (2**63 - 1, -(2**63))
    ),
    RaggedCase(
        "packed data, columns",
        "t = Transpose(x) y = Slice(t, s, e, a) z = ReduceSum<keepdims = 0>(y, a)",
        {"x": DATA["packed"], **BOUNDS["both"], "a": constant(np.array([1]))},
        ("y", "z"),
    ),
    RaggedCase("stacked numbers", "y = Slice(x, s, e)", {"x": mapped((5,)), **BOUNDS["both"]}),
    RaggedCase("stacked images", "y = Slice(x, s, e)", {"x": mapped((5, 2, 3)), **BOUNDS["both"]}),
]


STEPS = {
    "of two": (0, 9, 2),
    "of three from the back": (-1, -9, -3),
    "reversed": (-1, -(2**62), -1),
    "reversed in part": (9, 1, -1),
    "reversed, of two": (2, 0, -2),
}


def steps(name: str, kind: str) -> RaggedCase:
    begin, end, step = (constant(np.array([n])) for n in STEPS[name])
    operands = {"x": DATA[kind], "s": begin, "e": end, "a": FRONT, "t": step}
    if kind != "packed":
        operands["e"] = bound(*([5, 6, 3] if STEPS[name][2] > 0 else [-5, -4, -6]))
    return RaggedCase(f"{kind} data, {name}", "y = Slice(x, s, e, a, t)", operands)


CASES += [
    *(steps(name, kind) for name in STEPS for kind in ("packed", "stacked")),
    RaggedCase(
        "packed data, two axes",
        "y = Slice(x, s, e)",
        {
            "x": ragged(4, lengths=(4, 0, 6)),
            "s": constant(np.array([1, 1])),
            "e": constant(np.array([9, -1])),
        },
    ),
    RaggedCase(
        "packed data, two axes and steps",
        "y = Slice(x, s, e, a, t)",
        {
            "x": ragged(4, lengths=(4, 0, 6)),
            "s": constant(np.array([-1, 0])),
            "e": constant(np.array([0, 9])),
            "a": constant(np.array([1, 0])),
            "t": constant(np.array([-2, 2])),
        },
    ),
]


NUMBERS = {name: constant(np.array([n])) for name, n in {"none": 0, "two": 2, "six": 6}.items()}
PAIR = constant(np.array([2, 2]))
ONE_OF_TWO = {
    "the first axis": ("s2 = Concat<axis = 0>(s, none) e2 = Concat<axis = 0>(e, two)", ""),
    "the last axis": ("s2 = Concat<axis = 0>(none, s) e2 = Concat<axis = 0>(six, e)", ""),
    "an axis that is named last": (
        "s2 = Concat<axis = 0>(none, s) e2 = Concat<axis = 0>(two, e)",
        ", back",
    ),
    "two rows": ("s2 = Concat<axis = 0>(s, none) e2 = Add(s2, pair)", ""),
    "two rows, in steps of 1": ("s2 = Concat<axis = 0>(s, none) e2 = Add(s2, pair)", ", axes, t"),
    "two rows by int32": (
        "s1 = Cast<to = 6>(s) n1 = Cast<to = 6>(none) s0 = Concat<axis = 0>(s1, n1)"
        " s2 = Cast<to = 7>(s0) e2 = Add(s2, pair)",
        "",
    ),
}


def one_of_two(name: str, kind: str) -> RaggedCase:
    bounds, more = ONE_OF_TWO[name]
    pairs = {"back": np.array([-1, -2]), "axes": np.array([0, 1]), "t": np.array([1, 1])}
    operands = {"x": DATA[kind], "s": bound(1, 0, 5), "e": HIGH, **NUMBERS, "pair": PAIR}
    operands |= {one: constant(numbers) for one, numbers in pairs.items()}
    nodes = f"{bounds} y = Slice(x, s2, e2{more})"
    used = {one: operand for one, operand in operands.items() if re.search(rf"\b{one}\b", nodes)}
    return RaggedCase(f"{kind} data, {name} of two", nodes, used)


CASES += [
    one_of_two(name, kind)
    for name in ONE_OF_TWO
    for kind in ("shared", "stacked")
    if (name, kind) != ("the last axis", "stacked")  # which lies flat, and is not joined there
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


TABLE = shared(np.arange(24, dtype=np.float32).reshape(6, 4))


def in_steps(steps: Operand) -> RaggedCase:
    """Cut columns by bounds of each, of rows that are taken in steps."""
    nodes = """s2 = Concat<axis = 0>(none, s) e2 = Concat<axis = 0>(six, e)
        y = Slice(x, s2, e2, a, t)"""
    operands = {"x": TABLE, "s": bound(1, 0, 2), "e": bound(3, 2, 4), "t": steps}
    operands |= {"none": NUMBERS["none"], "six": NUMBERS["six"], "a": constant(np.array([0, 1]))}
    return RaggedCase("columns of rows in steps", nodes, operands)


@pytest.mark.parametrize("batch", [1, 3])
def test_an_axis_whose_rows_are_taken_in_steps_is_cut(batch: int) -> None:
    prove_ragged(in_steps(constant(np.array([2, 1]))), batch)


@pytest.mark.parametrize("dtype", [np.int64, np.int16])
def test_as_many_rows_as_a_range_counts_up_to_a_number(dtype: Any) -> None:
    """Nothing follows numbers of 16 bits."""
    numbers = {"none": constant(dtype(0)), "step": constant(dtype(1)), "most": shared(dtype(3))}
    nodes = "r = Range(none, most, step) h = Shape(r) y = Slice(x, f, h)"
    prove_ragged(RaggedCase("", nodes, {"x": DATA["packed"], "f": FRONT, **numbers}), 3)


def test_steps_along_two_axes_that_are_not_known_stay_per_sample() -> None:
    assert reasons_of(in_steps(shared(np.array([1, 1])))) == [("Slice", "no-rule")]


DECLINED = {
    "two axes of packed data": ({"x": DATA["packed"], **TWO}, "y = Slice(x, s, e)", "ragged"),
    "by a step that is not known": (
        {"x": DATA["packed"], "s": LOW, "e": HIGH, "a": FRONT, "t": shared(np.array([1]))},
        "y = Slice(x, s, e, a, t)",
        "ragged",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_other_slices_stay_per_sample(name: str) -> None:
    operands, nodes, code = DECLINED[name]
    assert reasons_of(RaggedCase("", nodes, operands)) == [("Slice", code)]
