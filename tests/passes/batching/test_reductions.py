"""Reductions, scans and sorting along axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.direct import declines_directly, prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    constant,
    decline_of,
    ints,
    mapped,
    prove,
    shared,
)

POSITIVE = mapped(*(np.random.default_rng(k).random((2, 3, 4), np.float32) + 1 for k in range(3)))
X = mapped((2, 3, 4))
SCALAR = mapped(())
NUMBER = mapped(np.float32(2), np.float32(3), np.float32(5))
NAN = np.float32("nan")
REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
]


def over(op: str, name: str, axes: object = None, attributes: str = "", **more: object) -> Case:
    """Return a case of a reduction of POSITIVE; `axes` is an operand or None."""
    operands = {"x": POSITIVE} if axes is None else {"x": POSITIVE, "a": axes}
    inputs = ", ".join(operands)
    return Case(f"{op} {name}", f"y = {op}{attributes}({inputs})", operands, **more)


EVERY_REDUCTION = [
    case
    for op in REDUCTIONS
    for case in (
        over(op, "all axes"),
        over(op, "constant axes", constant(ints(0, 2))),
        over(op, "negative axis", constant(ints(-1)), "<keepdims = 0>"),
        over(op, "run-time axes", shared(ints(0, -1))),
        over(op, "no axes, noop", constant(ints()), "<noop_with_empty_axes = 1>"),
        Case(f"{op} rank 0", f"y = {op}(x)", {"x": NUMBER}),
    )
]

OLD_REDUCTIONS = [
    case
    for op in REDUCTIONS
    for case in (
        over(op, "all axes, attribute form", opset=12),
        over(op, "axes, attribute form", None, "<axes = [0, -1], keepdims = 0>", opset=12),
        Case(
            f"{op} rank 0, attribute form",
            f"y = {op}(x)",
            {"x": NUMBER},
            opset=12,
        ),
    )
]

AXES = [
    over("ReduceMean", "attribute at 17", None, "<axes = [1]>", opset=17),
    over("ReduceSum", "input at 17", constant(ints(1)), opset=17),
    over("ReduceSum", "symbolic", constant(ints(-2)), symbolic=True),
    over("ReduceSum", "run-time axes, symbolic", shared(ints(2)), symbolic=True),
    over("ReduceSum", "run-time axes, none", shared(ints()), symbolic=True),
    over("ReduceSum", "run-time axes, declared none", shared(ints())),
    over(
        "ReduceMax",
        "run-time axes, none, keepdims 0",
        shared(ints()),
        "<keepdims = 0>",
        symbolic=True,
    ),
    over(
        "ReduceSum",
        "run-time axes, none, noop",
        shared(ints()),
        "<noop_with_empty_axes = 1>",
        symbolic=True,
    ),
    over(
        "ReduceSum",
        "run-time axes, noop",
        shared(ints(1)),
        "<noop_with_empty_axes = 1>",
        symbolic=True,
    ),
    over("ReduceSum", "noop, axes left out", None, "<noop_with_empty_axes = 1>"),
    Case(
        "ReduceL1 rank 0, run-time axes",
        "y = ReduceL1(x, a)",
        {"x": SCALAR, "a": shared(ints())},
        symbolic=True,
    ),
    Case(
        "ReduceMax of int32",
        "y = ReduceMax(x)",
        {"x": mapped((3, 4), dtype=np.int32)},
        rtol=0,
        atol=0,
    ),
    Case(
        "ReduceMax of bool",
        "a = Constant<value_ints = [0]>() y = ReduceMax(x, a)",
        {"x": mapped((3, 4), dtype=np.bool_)},
        opset=20,
    ),
    Case(
        "axes constant in the body",
        "a = Constant<value_ints = [-1]>() y = ReduceSum(x, a)",
        {"x": X},
    ),
]

SELECTIONS = [
    Case("ArgMax default axis", "y = ArgMax(x)", {"x": X}),
    Case("ArgMax negative axis", "y = ArgMax<axis = -1, keepdims = 0>(x)", {"x": X}),
    Case("ArgMax symbolic", "y = ArgMax<axis = -2>(x)", {"x": X}, symbolic=True),
    Case(
        "ArgMin last index",
        "y = ArgMin<axis = 1, select_last_index = 1>(x)",
        {"x": mapped(*(np.full((2, 3), k, np.float32) for k in range(3)))},
    ),
    Case("ArgMin rank 0", "y = ArgMin(x)", {"x": SCALAR}),
    Case("TopK default axis", "y, i = TopK(x, k)", {"x": X, "k": constant(ints(2))}, ("y", "i")),
    Case(
        "TopK axis 0", "y, i = TopK<axis = 0>(x, k)", {"x": X, "k": constant(ints(1))}, ("y", "i")
    ),
    Case(
        "TopK smallest, run-time K",
        "y, i = TopK<axis = 1, largest = 0>(x, k)",
        {"x": X, "k": shared(ints(2))},
        ("y", "i"),
        symbolic=True,
    ),
    Case("TopK indices only", "_, i = TopK(x, k)", {"x": X, "k": constant(ints(2))}, ("i",)),
    Case(
        "TopK at 24", "y, i = TopK(x, k)", {"x": X, "k": constant(ints(2))}, ("y", "i"), opset=24
    ),
]

SCANS = [
    Case("CumSum constant axis", "y = CumSum(x, a)", {"x": X, "a": constant(np.int64(1))}),
    Case("CumSum negative axis", "y = CumSum(x, a)", {"x": X, "a": constant(np.int32(-1))}),
    Case("CumSum run-time axis", "y = CumSum(x, a)", {"x": X, "a": shared(np.int64(0))}),
    Case("CumSum run-time axis of int32", "y = CumSum(x, a)", {"x": X, "a": shared(np.int32(-3))}),
    Case(
        "CumSum exclusive, reverse",
        "y = CumSum<exclusive = 1, reverse = 1>(x, a)",
        {"x": X, "a": shared(np.int64(2))},
        symbolic=True,
    ),
    Case("CumSum axis of one element", "y = CumSum(x, a)", {"x": X, "a": constant(ints(1))}),
    Case("CumProd", "y = CumProd(x, a)", {"x": X, "a": constant(np.int64(-2))}, opset=26),
    Case(
        "CumProd run-time axis", "y = CumProd(x, a)", {"x": X, "a": shared(np.int64(1))}, opset=26
    ),
]

POOLS = [
    Case(f"{op} {name}", f"y = {op}{attributes}(x)", {"x": x}, rtol=0, atol=0, symbolic=symbolic)
    for op, attributes in (
        ("GlobalAveragePool", ""),
        ("GlobalMaxPool", ""),
        ("GlobalLpPool", "<p = 1>"),
    )
    for name, x, symbolic in (
        ("image", mapped((1, 3, 4, 5)), False),
        ("images", mapped((2, 3, 4, 5)), True),
        ("signal", mapped((2, 3, 5)), False),
        ("volume", mapped((1, 2, 3, 2, 2)), False),
    )
] + [
    Case(
        "GlobalMaxPool with NaN",
        "y = GlobalMaxPool(x)",
        {"x": mapped(*(np.array([[[NAN, 1, 2 * k], [k, 1, NAN]]], np.float32) for k in range(3)))},
    ),
    Case("GlobalLpPool default p", "y = GlobalLpPool(x)", {"x": mapped((1, 2, 3, 3))}),
]


@BATCHES
@pytest.mark.parametrize("case", [*EVERY_REDUCTION, *AXES, *SELECTIONS, *SCANS, *POOLS], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    *OLD_REDUCTIONS,
    Case("ArgMax", "y = ArgMax<axis = -1>(x)", {"x": X}, opset=12),
    Case("CumSum", "y = CumSum(x, a)", {"x": X, "a": shared(np.int32(-1))}, opset=11),
    Case("GlobalAveragePool", "y = GlobalAveragePool(x)", {"x": mapped((1, 2, 3))}, opset=11),
    Case(
        "TopK", "y, i = TopK<axis = 0>(x, k)", {"x": X, "k": shared(ints(2))}, ("y", "i"), opset=11
    ),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


PER_SAMPLE_AXES = mapped(ints(0), ints(1), ints(0))
DECLINES = [
    (
        Case("reduction axes", "y = ReduceSum(x, a)", {"x": X, "a": PER_SAMPLE_AXES}),
        ("ReduceSum", "batched-operand"),
    ),
    (
        Case("axis of a scan", "y = CumSum(x, a)", {"x": X, "a": PER_SAMPLE_AXES}),
        ("CumSum", "batched-operand"),
    ),
]


@pytest.mark.parametrize(("case", "reason"), DECLINES, ids=str)
def test_declines(case: Case, reason: tuple[str, str]) -> None:
    assert decline_of(case) == [reason]


@pytest.mark.parametrize(("op_type", "axis"), [("ArgMax", 2), ("ArgMin", -3)])
def test_an_axis_that_only_the_stack_has_is_none_of_the_sample(op_type: str, axis: int) -> None:
    case = Case("", f"y = {op_type}<axis = {axis}>(x)", {"x": mapped((3, 4))}, opset=13)
    assert declines_directly(case) == [(op_type, "no-rule")]
