"""Samples of different length that have no rule of their own are taken as images of any size.

That is for targets without branches or without loops, and where all of a model with tensors at its
ends is to be fused: elsewhere a guard asks for the lengths.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Code
from tests.passes.batching.images import (
    FlatCase,
    loops_and_sequences,
    numbers,
    prove_flat,
    prove_nothing,
)

SUMS = "k = Constant <value_int = 0> () "
SCORES = "t = Transpose <perm = [1, 0]> (x) s = MatMul (x, t) "
LOWER = (
    "n = Shape <end = 1> (x) two = Concat <axis = 0> (n, n) "
    "ones = ConstantOfShape <value = float[1] {1}> (two) low = Trilu <upper = 0> (ones) "
    "keep = Cast <to = 9> (low) none = Constant <value_float = -1000000.0> () "
)
MASKED = SCORES + LOWER + "m = Where (keep, s, none) "
ROWS = {"element": "float[N,4]", "result": "float[n,4]", "low": -1.0, "high": 1.0}

CASES = [
    FlatCase("attention to rows before", MASKED + "p = Softmax <axis = -1> (m) y = MatMul (p, x)",
             tolerance=1e-6, **ROWS),
    FlatCase("scores that are masked", MASKED + "y = Relu (m)", tolerance=1e-6,
             **ROWS | {"result": "float[n,n]"}),
    FlatCase("scores, transposed", MASKED + "y = Transpose <perm = [1, 0]> (m)", tolerance=1e-6,
             **ROWS | {"result": "float[n,n]"}),
    FlatCase("products over rows", 'y = Einsum <equation = "ni,nj->ij"> (x, x)', tolerance=1e-6,
             **ROWS | {"result": "float[4,4]"}),
    FlatCase("pooled by two", numbers("z", 0, 1) + "u = Unsqueeze (x, z) p = MaxPool "
             "<kernel_shape = [2], strides = [2]> (u) y = Squeeze (p, z)", "float[N]", "float[n]",
             least=2),
    FlatCase("sums so far", SUMS + "y = CumSum (x, k)", tolerance=1e-6, **ROWS),
    FlatCase("sums before", SUMS + "y = CumSum <exclusive = 1> (x, k)", tolerance=1e-6, **ROWS),
    FlatCase("sums behind", SUMS + "y = CumSum <exclusive = 1, reverse = 1> (x, k)",
             tolerance=1e-6, **ROWS),
    FlatCase("sums from here on of whole numbers", SUMS + "y = CumSum <reverse = 1> (x, k)",
             "int64[N]", "int64[n]"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_samples_of_different_length(case: FlatCase) -> None:
    prove_flat(case, counts=(1, 2, 6))
    prove_nothing(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_target_that_has_branches_and_no_loops(case: FlatCase) -> None:
    after = rewriter.optimize(case.model, target="tract", tensor_io=True)
    assert not loops_and_sequences(after) - {"If"}


def test_an_infinity_stays_in_its_sample() -> None:
    case = FlatCase("", SUMS + "y = CumSum (x, k)", "float[N]", "float[n]")
    rows = [[1.0, np.inf], [2.0, 3.0], [-np.inf, 4.0], [np.nan]]
    prove_flat(case, feeds=[[np.array(row, np.float32) for row in rows]])


def test_what_has_neither_rule_says_why_its_own_declines() -> None:
    case = FlatCase("", "y = LpNormalization <axis = 0> (x)", "float[N]", "float[n]")
    report = rewriter.explain(case.model, target="portable", tensor_io=True)
    reasons = {(r.op_type, r.code) for one in report.decisions for r in one.reasons}
    assert reasons == {("LpNormalization", Code.RAGGED)}


def test_a_target_that_has_both_keeps_its_guards() -> None:
    case = CASES[0]
    after = rewriter.optimize(case.model, strategy="fuse")
    assert isinstance(after, onnx.ModelProto) and "If" in {n.op_type for n in after.graph.node}


def test_fusing_all_with_tensors_at_the_ends_of_a_model() -> None:
    """A Loop has no sequence there to yield its samples in."""
    case = FlatCase(
        "grid",
        "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () k = Constant "
        "<value_ints = [1]> () h1 = Shape <end = 1> (x) w1 = Shape <start = 1> (x) f = Constant "
        "<value_ints = [0]> () h = Squeeze (h1, f) w = Squeeze (w1, f) r = Range (zero, h, one) "
        "c = Range (zero, w, one) r1 = Unsqueeze (r, k) a = Mul (r1, c) y = Cast <to = 1> (a)",
        "float[H,W]",
        "float[h,w]",
    )
    made = rewriter.optimize(case.model, strategy="fuse", tensor_io=True)
    assert not loops_and_sequences(made)
