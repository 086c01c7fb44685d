"""Bounds, types, slopes, scales, best places and sums beside lengths along another axis."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.passes.batching.harness import constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged
from tests.passes.batching.test_packed_axes import LONG, W, ints, turned

HALF = np.float32(0.5)
CASES = [
    turned("bounds for all", "y = Clip(t, l, h)", l=constant(np.float32(-0.3)), h=shared(HALF)),
    turned("bounds of a sample", "y = Clip(t, l, m)", l=constant(np.float32(-0.3)), m=mapped(())),
    turned(
        "bounds of a sample, of integers",
        "a = Mul(t, f) u = Cast<to = 3>(a) c = Clip(u, l) y = Cast<to = 6>(c)",
        f=constant(np.float32(9)),
        l=mapped(np.int8(2), np.int8(-3), np.int8(0)),
    ),
    turned("another type", "y = CastLike(t, l)", l=constant(np.int64(1))),
    turned("another type, of a sample", "y = CastLike(t, x)"),
    turned("slopes", "n = Neg(t) y = PRelu(n, c)", c=shared(np.ones((4, 1), np.float32) / 3)),
    turned(
        "quantized rows",
        "q = QuantizeLinear<axis = 0>(t, s) y = DequantizeLinear<axis = 0>(q, s)",
        s=constant(np.array([0.1, 0.2, 0.3, 0.4], np.float32)),
    ),
    turned(
        "normalized channels",
        "u = Unsqueeze(t, a) b = BatchNormalization(u, w, w, w, v) y = Squeeze(b, a)",
        a=ints(0),
        w=constant(W[0]),
        v=constant(np.abs(W[0])),
    ),
    turned("best row of each column", "y = ArgMax<axis = 0>(t)"),
    turned("best row of each column, squeezed", "y = ArgMin<axis = 0, keepdims = 0>(t)"),
    turned("best column", "y = ArgMax<axis = 1>(t)", x=LONG),
    turned(
        "last best column, squeezed",
        "y = ArgMin<axis = -1, keepdims = 0, select_last_index = 1>(t)",
        x=LONG,
    ),
    dataclasses.replace(
        turned("sums of columns so far", "y = CumSum(t, a)", a=constant(np.array(1))), loops=1
    ),
    dataclasses.replace(
        turned(
            "sums of columns from behind",
            "y = CumSum<reverse = 1, exclusive = 1>(t, a)",
            a=constant(np.array(-1)),
        ),
        loops=1,
    ),
    turned("sums of rows so far", "y = CumSum(t, a)", a=constant(np.array(0))),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)
