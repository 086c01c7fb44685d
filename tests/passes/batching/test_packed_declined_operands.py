"""Operands and attributes that a rule for samples of different length cannot take.

The node stays per-sample, for the reason that is said, and all samples come out right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.bodies import FOUR, THREE, X, ints, numbers, of
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import prove_declined, ragged

pytestmark = pytest.mark.quick

WEIGHTS = constant(np.ones((4, 3), np.float32))
TEXTS = Operand("ragged", tuple(np.full((n, 1), "a", object) for n in (2, 0, 3)))
FLAGS = numbers(True, False, True)
EITHER = (
    "y = If(c) <then_branch = t () => (float[] a) {{ a = {} }}, "
    "else_branch = e () => (float[] b) {{ b = {} }}>"
)


CASES: dict[str, tuple[Any, str, str]] = {
    "summed along an axis that is given when it runs": (
        of("y = CumSum(x, k)", x=X, k=shared(np.array(0))),
        "CumSum ragged",
        "nothing tells its axis before it runs",
    ),
    "rows of one size, as often as a sample is long": (
        of("s = Shape(x) y = Expand(w, s)", x=THREE, w=mapped((3, 4))),
        "Expand ragged",
        "'w' meets an axis that differs in length",
    ),
    "texts of either": (
        of(
            "y = If(c) <then_branch = t () => (string[] a) { a = Identity(x) }, "
            "else_branch = e () => (string[] b) { b = Identity(z) }>",
            x=TEXTS,
            z=mapped(*[np.array([["q"]], object)] * 3),
            c=FLAGS,
        ),
        "If control-flow",
        "it yields what cannot be put in order",
    ),
    "rows or their sum": (
        of(
            EITHER.format("Identity(x)", "ReduceSum<keepdims = 0>(x)"),
            x=ragged(lengths=(2, 1, 3)),
            c=numbers(True, True, True),
        ),
        "If control-flow",
        "the condition and so the shape differs by sample",
    ),
    "a condition of one row": (
        of(
            EITHER.format("Identity(x)", "Neg(x)"),
            x=X,
            c=ragged(dtype=np.bool_, lengths=(1, 1, 1)),
        ),
        "If control-flow",
        "the condition is not one value",
    ),
    "as often as a row says": (
        of(
            "y = Loop(m, c, w) <body = b (int64 i, bool g, float[4] s) => (bool h, float[4] t) "
            "{ h = Identity(g) t = Add(s, s) }>",
            w=mapped((4,)),
            m=ragged(dtype=np.int64, low=1, high=3.9, lengths=(1, 1, 1)),
            c=shared(np.array(True)),
        ),
        "Loop control-flow",
        "its trip count or condition is not one value",
    ),
    "a slope of the rows": (
        of("y = PRelu(w, x)", x=THREE, w=mapped((3, 4))),
        "PRelu ragged",
        "its slope differs in length",
    ),
    "shared rows added to a product": (
        of("y = Gemm(x, w, c)", x=THREE, w=WEIGHTS, c=shared(np.ones((3, 3), np.float32))),
        "Gemm ragged",
        "its C meets the axis that differs in length",
    ),
    "a row that is as long as a product is high": (
        of("y = Gemm(x, w, c)", x=THREE, w=WEIGHTS, c=ragged(lengths=(3, 3, 3))),
        "Gemm ragged",
        "its C has the axis that differs in length elsewhere",
    ),
    "half of a matrix of texts": (
        of("y = Trilu(x)", x=TEXTS),
        "Trilu no-rule",
        "no text is a zero",
    ),
    "regions that all share, in any number of images": (
        of(
            "y = RoiAlign(x, r, i)",
            x=ragged(3, 4, 4, lengths=(2, 2, 2)),
            r=shared(np.zeros((2, 4), np.float32)),
            i=shared(np.array([0, 1])),
        ),
        "RoiAlign ragged",
        "images differ in number or in size, or are more than regions",
    ),
    "a sum with a vector of each": (
        of('y = Einsum<equation = "ij,j->i">(x, v)', x=X, v=mapped((4,))),
        "Einsum batched-operand",
        "an operand differs beside packed samples",
    ),
    "a row for places of any number": (
        of(
            "y = ScatterND(x, i, u)",
            x=FOUR,
            i=ragged(1, dtype=np.int64, lengths=(1, 1, 1)),
            u=mapped((1, 4)),
        ),
        "ScatterND ragged",
        "its operands are not proven to be equally long",
    ),
    "columns read by rows": (
        of(
            "t = Transpose(x) y = GatherElements<axis = 0>(t, i)",
            x=FOUR,
            i=ragged(4, dtype=np.int64, low=0, high=3.9, lengths=(4, 4, 4), seed=3),
        ),
        "GatherElements ragged",
        "its data differ in length along another axis",
    ),
    "scanned beside what has one length": (
        of(
            "y = Scan(x, w) <num_scan_inputs = 2, body = b (float[4] a, float[4] c) "
            "=> (float[4] d) { d = Add(a, c) }>",
            x=THREE,
            w=mapped((3, 4)),
        ),
        "Scan ragged",
        "it scans samples of different length beside others",
    ),
    "turned as far as rows say": (
        of(
            "y = ReverseSequence(x, l)",
            x=ragged(2, 4),
            l=ragged(dtype=np.int64, low=0, high=0.9, lengths=(2, 2, 2)),
        ),
        "ReverseSequence ragged",
        "how much of it is turned differs in length",
    ),
    "turned along another axis than time": (
        of(
            "y = ReverseSequence<time_axis = 1, batch_axis = 0>(x, l)",
            x=ragged(2, lengths=(2, 2, 2)),
            l=shared(np.array([1, 2])),
        ),
        "ReverseSequence ragged",
        "its samples differ in length along another axis than time",
    ),
    "the largest of each row, as many as a sample says": (
        of("y, j = TopK<axis = 1>(x, k)", "y j", x=X, k=numbers([2], [2], [2])),
        "TopK batched-operand",
        "its K differs from sample to sample",
    ),
    "slid over by a filter of open size": (
        of(
            "t = Transpose(x) u = Unsqueeze(t, o) w = Reshape(f, k) c = Conv(u, w) "
            "v = Squeeze(c, o) y = Transpose(v)",
            x=ragged(4, lengths=(5, 4, 9)),
            o=constant(np.array([0])),
            f=shared(np.ones((2, 12), np.float32)),
            k=shared(np.array([2, 4, 3])),
        ),
        "Conv unknown-shape",
        "nothing tells the size of its filter",
    ),
    "slid over by a filter of open rank": (
        of(
            "t = Transpose(x) u = Unsqueeze(t, o) l = Slice(k, o, n) w = Reshape(f, l) "
            "c = Conv(u, w) v = Squeeze(c, o) y = Transpose(v)",
            x=ragged(4, lengths=(5, 4, 9)),
            o=constant(np.array([0])),
            f=shared(np.ones((2, 12), np.float32)),
            k=shared(np.array([2, 4, 3, 1])),
            n=shared(np.array([3])),
        ),
        "Conv unknown-rank",
        "nothing tells the rank of 'w'",
    ),
    "split into sizes of each": (
        of("y, z = Split<axis = 1>(x, s)", "y z", x=X, s=numbers([1, 3], [1, 3], [1, 3])),
        "Split batched-operand",
        "operand 1 differs beside samples of different length",
    ),
    "cut by steps of each": (
        of(
            "y = Slice(x, s, e, a, k)",
            x=X,
            s=numbers([0], [0], [0]),
            e=numbers([2], [2], [2]),
            a=ints(0),
            k=numbers([1], [1], [1]),
        ),
        "Slice ragged",
        "its bounds or steps differ in length, or are not known",
    ),
    "windows that reach behind the end, by two": (
        of(
            't = Transpose<perm = [1, 2, 0]>(x) y = Conv<auto_pad = "SAME_UPPER", strides = [2]>(t, w)',
            x=ragged(1, 2, lengths=(4, 5, 6)),
            w=constant(np.ones((3, 2, 2), np.float32)),
        ),
        "Conv ragged",
        "what it pads follows from the length of a sample",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_cannot_take_is_said(name: str) -> None:
    case, reason, detail = CASES[name]
    assert prove_declined(case, reason) == [detail]
