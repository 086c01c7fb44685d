"""Cases of rules with one thing changed: what decides is not taken for what happens to fit.

An operand is shared, a constant or one of each sample, in place of what it was; or an attribute,
the opset or what the target has is another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.bodies import of
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_declined, prove_ragged, ragged

pytestmark = pytest.mark.quick


def samples(*arrays: Any) -> Operand:
    """Make an operand of given samples, which differ in length."""
    return Operand("ragged", arrays)


WITHOUT = ("Loop", "Scan", "If")
"""What a target may lack."""

NEAR: dict[str, tuple[RaggedCase, str, tuple[str, ...]]] = {
    "padded along the last axis, L mapped": (
        of(
            "n = Shape<start = 0, end = 1>(x) rest = Sub(L, n) k = Constant<value_ints = [4]>() s = Concat<axis = 0>(k, rest) o = ConstantOfShape(s) t = Transpose(x) y = Concat<axis = 1>(t, o)",
            x=ragged(4),
            L=mapped(np.array([6], np.int64), np.array([6], np.int64), np.array([6], np.int64)),
        ),
        "",
        (),
    ),
    "padded along the last axis, L constant": (
        of(
            "n = Shape<start = 0, end = 1>(x) rest = Sub(L, n) k = Constant<value_ints = [4]>() s = Concat<axis = 0>(k, rest) o = ConstantOfShape(s) t = Transpose(x) y = Concat<axis = 1>(t, o)",
            x=ragged(4),
            L=constant(np.array([6], np.int64)),
        ),
        "",
        (),
    ),
    "stacked data, a constant beyond 32 bits, e int32": (
        of(
            "y = Slice(x, s, e)",
            x=mapped((6, 2)),
            s=mapped(np.array([1], np.int64), np.array([0], np.int64), np.array([2], np.int64)),
            e=constant(np.array([-2147483648], np.int32)),
        ),
        "",
        (),
    ),
    "reshape by shape, r mapped lacks": (
        of(
            "n = Shape<end=1>(x) s = Concat<axis=0>(n, r) y = Reshape(x, s)",
            x=ragged(4),
            r=mapped(
                np.array([2, 2], np.int64),
                np.array([2, 2], np.int64),
                np.array([2, 2], np.int64),
            ),
        ),
        "Reshape ragged",
        WITHOUT,
    ),
    "rows of both, none, opset 13": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Relu(x) }>",
            opset=13,
            x=ragged(2),
            c=mapped(
                np.array(False, np.bool_), np.array(False, np.bool_), np.array(False, np.bool_)
            ),
        ),
        "If no-rule",
        (),
    ),
    "sorted upwards, a shared": (
        of(
            "s = Shape(x) n = Gather<axis = 0>(s, a) y, i = TopK<axis = 0, largest = 0>(x, n)",
            outputs="y i",
            x=ragged(),
            a=shared(np.array([0], np.int64)),
        ),
        "",
        (),
    ),
    "fewer rows in one, all, Slice short": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Slice(x, s) }>",
            x=ragged(2),
            s=constant(np.array([0], np.int64)),
            k=constant(np.array([2], np.int64)),
            c=mapped(np.array(True, np.bool_), np.array(True, np.bool_), np.array(True, np.bool_)),
        ),
        "If no-rule",
        (),
    ),
    "two results, False, x constant lacks": (
        of(
            "y, z = If(c) <then_branch = t () => (float[] a, float[] d) { a = Neg(x) d = Abs(x) }, else_branch = e () => (float[] b, float[] f) { b = Slice(x, s, k) f = Slice(w, s, k) }>",
            outputs="y z",
            x=constant(np.array([[3.133, 4.128], [1.066, 2.295], [0.436, 4.351]], np.float32)),
            w=ragged(2),
            s=constant(np.array([0], np.int64)),
            k=constant(np.array([2], np.int64)),
            c=shared(np.array(False, np.bool_)),
        ),
        "",
        WITHOUT,
    ),
    "to half of its length, x constant lacks": (
        of(
            "n = Shape(x) h = Div(n, two) a = Slice(x, zero, h) b = Slice(z, zero, h) y = Add(a, b)",
            x=constant(np.array([-4.59, -4.835, 3.133], np.float32)),
            z=ragged(),
            zero=constant(np.array([0], np.int64)),
            two=constant(np.array([2], np.int64)),
        ),
        "",
        WITHOUT,
    ),
    "matmul rank 3, opset 13": (
        of(
            "y = MatMul(x, w)",
            opset=13,
            x=ragged(2, 4),
            w=constant(
                np.array(
                    [
                        [-1.0, -0.818, -0.636],
                        [-0.455, -0.273, -0.091],
                        [0.091, 0.273, 0.455],
                        [0.636, 0.818, 1.0],
                    ],
                    np.float32,
                )
            ),
        ),
        "MatMul unknown-rank",
        (),
    ),
    "steps alone, z constant": (
        of(
            "e, y = Loop(, t, z) <body = b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] o) { h = Mul(s, half) q = ReduceSum<keepdims = 0>(h) c2 = Greater(q, one) s2 = Identity(h) o = Neg(h) }>",
            x=ragged(2),
            z=constant(np.array([1.0, 2.0], np.float32)),
            t=constant(np.array(True, np.bool_)),
            half=constant(np.array(0.5, np.float32)),
            one=constant(np.array(1.0, np.float32)),
        ),
        "",
        (),
    ),
    "scan, opset 13": (
        of(
            "y, z = Scan(w, x) <num_scan_inputs=1, body = b (float[3] s, float[3] e) => (float[3] s2, float[3] step) { s2 = Add(s, e) step = Mul(s2, v) }>",
            outputs="y z",
            opset=13,
            x=mapped((4, 3)),
            w=shared(np.array([1.0, 1.0, 1.0], np.float32)),
            v=mapped(
                np.array([1.037, 2.465, 0.991], np.float32),
                np.array([-3.909, 2.716, 1.339], np.float32),
                np.array([-1.611, 1.743, 1.094], np.float32),
            ),
        ),
        "Scan no-rule",
        (),
    ),
    "rows of both, True, x int64": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Relu(x) }>",
            x=samples(
                np.array([[1, -2], [-4, -4]], np.int64),
                np.array([], np.int64).reshape(0, 2),
                np.array([[3, 4], [1, 2], [0, 4]], np.int64),
            ),
            c=shared(np.array(True, np.bool_)),
        ),
        "",
        (),
    ),
    "if on a condition per sample, x int64": (
        of(
            "y = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) }, else_branch = e () => (float[3] b) { b = Relu(x) }>",
            x=mapped(
                np.array([0, 0, 1], np.int64),
                np.array([0, -1, 1], np.int64),
                np.array([3, 2, -2], np.int64),
            ),
            c=mapped(
                np.array(True, np.bool_), np.array(False, np.bool_), np.array(True, np.bool_)
            ),
        ),
        "",
        (),
    ),
    "loss sum, x constant lacks": (
        of(
            'y = SoftmaxCrossEntropyLoss<reduction="sum">(x, t)',
            x=constant(
                np.array(
                    [
                        [3.574, -4.664, 2.297, -3.243],
                        [3.632, 0.415, -2.003, -0.773],
                        [-4.717, -3.757, 1.706, 1.472],
                    ],
                    np.float32,
                )
            ),
            t=samples(
                np.array([1, 0], np.int64),
                np.array([0], np.int64),
                np.array([0, 2, 2], np.int64),
            ),
        ),
        "SoftmaxCrossEntropyLoss ragged",
        WITHOUT,
    ),
    "loss, the same one target for all": (
        of(
            "y = SoftmaxCrossEntropyLoss(x, t)",
            x=samples(*(np.ones((1, 4), np.float32) for _ in range(3))),
            t=constant(np.array([1], np.int64)),
        ),
        "SoftmaxCrossEntropyLoss ragged",
        (),
    ),
    "what becomes of one shape, none, ReduceMax short": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = ReduceSum<keepdims=0>(x, s) }, else_branch = e () => (float[] b) { b = ReduceMax<keepdims=0>(q) }>",
            x=ragged(2),
            q=mapped((3, 2)),
            s=constant(np.array([0], np.int64)),
            k=constant(np.array([2], np.int64)),
            c=mapped(
                np.array(False, np.bool_), np.array(False, np.bool_), np.array(False, np.bool_)
            ),
        ),
        "If control-flow",
        (),
    ),
    "token in front, opset 15": (
        of(
            "y = Concat<axis=0>(t, x)",
            opset=15,
            x=ragged(4),
            t=constant(np.array([[1.0, 1.0, 1.0, 1.0]], np.float32)),
        ),
        "",
        (),
    ),
    "other lengths in one, all, x constant lacks": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Neg(z) }>",
            x=constant(np.array([[3.133, 4.128], [1.066, 2.295], [0.436, 4.351]], np.float32)),
            z=ragged(2, lengths=(1, 4, 0)),
            c=mapped(np.array(True, np.bool_), np.array(True, np.bool_), np.array(True, np.bool_)),
        ),
        "",
        WITHOUT,
    ),
    "a row for all in one, all, w ragged lacks": (
        of(
            "v = If(c) <then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Unsqueeze(w, s) }> y = Concat<axis=0>(x, v)",
            x=ragged(2),
            w=ragged(),
            s=constant(np.array([0], np.int64)),
            k=constant(np.array([2], np.int64)),
            c=mapped(np.array(True, np.bool_), np.array(True, np.bool_), np.array(True, np.bool_)),
        ),
        "Concat ragged",
        WITHOUT,
    ),
    "y = Reshape<allowzero = 1>(x, s), s mapped lacks": (
        of(
            "y = Reshape<allowzero = 1>(x, s)",
            x=ragged(0),
            s=mapped(
                np.array([5, 0], np.int64),
                np.array([5, 0], np.int64),
                np.array([5, 0], np.int64),
            ),
        ),
        "",
        WITHOUT,
    ),
    "y = Reshape<allowzero = 1>(x, s), lacks": (
        of(
            "y = Reshape<allowzero = 1>(x, s)",
            x=ragged(0),
            s=constant(np.array([5, 0], np.int64)),
        ),
        "",
        WITHOUT,
    ),
    "reshaped to as many rows again, two mapped lacks": (
        of(
            "n = Shape<start = 0, end = 1>(x) m = Mul(n, two) s = Concat<axis = 0>(m, minus) y = Reshape(x, s)",
            x=ragged(4, lengths=(2, 1, 3)),
            two=mapped(np.array([2], np.int64), np.array([2], np.int64), np.array([2], np.int64)),
            minus=constant(np.array([-1], np.int64)),
        ),
        "Reshape ragged",
        WITHOUT,
    ),
    "scan along the last axis, backwards, from a stacked state, Mul swapped": (
        of(
            "y, z = Scan(w, x) <num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1], scan_input_directions=[1], body = b (float[3] s, float[3] e) => (float[3] s2, float[3] step) { s2 = Add(s, e) step = Mul(w, s2) }>",
            outputs="y z",
            x=mapped((3, 4)),
            w=mapped(
                np.array([0.567, -1.568, -1.239], np.float32),
                np.array([-7.324, 5.399, 3.432], np.float32),
                np.array([-0.976, 2.321, 0.844], np.float32),
            ),
        ),
        "",
        (),
    ),
    "a shared result in one, none, v ragged lacks": (
        of(
            "y = If(c) <then_branch = t () => (float[] a) { a = MatMul(w, v) }, else_branch = e () => (float[] b) { b = Identity(x) }>",
            x=mapped(
                np.array([0.377, -0.396, 1.921], np.float32),
                np.array([0.315, -1.607, 1.085], np.float32),
                np.array([3.912, 2.841, -2.111], np.float32),
            ),
            w=shared(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]], np.float32)),
            v=ragged(),
            c=mapped(
                np.array(False, np.bool_), np.array(False, np.bool_), np.array(False, np.bool_)
            ),
        ),
        "If ragged",
        WITHOUT,
    ),
    "of higher rank, z ragged lacks": (
        of("y = Sub(x, z)", x=ragged(4, lengths=(3, 3, 1)), z=ragged(3, 4)),
        "Sub ragged",
        WITHOUT,
    ),
}
"""The case, what stays per-sample and why, and what the target lacks."""


@pytest.mark.parametrize("name", NEAR)
def test_one_thing_changed(name: str) -> None:
    case, reasons, lacks = NEAR[name]
    prove_declined(case, reasons, lacks=lacks)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_places_without_numbers_are_whole_samples(batch: int) -> None:
    whole = of("y = GatherND(x, i)", x=ragged(4), i=constant(np.zeros((2, 0), np.int64)))
    prove_ragged(whole, batch, lacks=WITHOUT)
