"""What loops of no iterations yield."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.evaluator.reference import ReferenceEvaluator
from tests.rewriter.evaluator.evaluating import (
    A,
    C,
    assert_same,
    i64,
    parse,
    run_onnxruntime,
)

LOOP = """g (int64 m, {input}) => (float[] y) {{
    t = Constant<value = bool {{1}}>()
    {before} y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, {output} o)
        {{ d = Identity(c) {body} }}> }}"""
STATE = """g (int64 m, float[2, 4] x) => (float[] h, {output} y) {{
    t = Constant<value = bool {{1}}>()
    h, y = Loop (m, t, x) <body = l (int64 i, bool c, float[] a) => (bool d, float[] b, {output} o)
        {{ d = Identity(c) b = Neg(a) o = Cast<to = 10>(a) }}> }}"""
X = np.ones((3, 4), np.float32)
NO_STEPS = {
    "declared": (
        LOOP.format(input="float[A, B] x", before="", output="float[2, 4]", body="o = Neg(x)"),
        {"x": X}, (0, 2, 4), None,
    ),
    "declared-in-part": (
        LOOP.format(input="float[A, B] x", before="", output="float[N, 4]", body="o = Neg(x)"),
        {"x": X}, (0, 0, 4), None,
    ),
    "inferred": (
        LOOP.format(input="float[N, 4] x", before="", output="float[]", body="o = Neg(x)"),
        {"x": X}, (0, 0, 4), None,
    ),
    "inferred-scalar": (
        LOOP.format(input="float[N, 4] x", before="", output="float[]",
                    body="o = ReduceSum<keepdims = 0>(x)"),
        {"x": X}, (0,), None,
    ),
    "values-of-the-enclosing-graph-unknown": (
        LOOP.format(input="float[N] x", before="k = Constant<value_ints = [2, 3]>()",
                    output="float[]", body="o = ConstantOfShape(k)"),
        {"x": A}, (0, 0, 0), (0, 2, 3),
    ),
    "inferred-from-a-sequence": (
        LOOP.format(input="seq(float[2, N]) s", before="", output="float[]",
                    body="o = SequenceAt(s, i)"),
        {"s": []}, (0, 2, 0), None,
    ),
    "rank-of-the-elements-at-hand": (
        LOOP.format(input="seq(float[]) s", before="", output="float[]",
                    body="o = SequenceAt(s, i)"),
        {"s": [X]}, (0, 0, 0), (0,),
    ),
    "rank-of-the-state": (STATE.format(output="float16[]"), {"x": X[:2]}, (0, 0, 0), (0,)),
    "in-a-function": (
        """g (int64 m, float[3, 4] x) => (float[] y) { y = local.f (m, x) }
        <domain: "local", opset_import: ["": 22]> f (m, x) => (y) {
            y = Loop (m, "") <body = l (int64 i, bool c) => (bool d, o)
                { d = Identity(c) k = Shape(x) o = Expand(x, k) }> }""",
        {"x": X}, (0, 3, 4), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "feeds", "shape", "ort"), NO_STEPS.values(), ids=NO_STEPS)
def test_loop_without_steps(text, feeds, shape, ort):
    feeds = {"m": i64(0), **feeds}
    *_, y = ReferenceEvaluator(parse(text)).run(None, feeds)
    assert y.shape == shape
    assert y.dtype == (np.float16 if "float16" in text else np.float32)
    *_, other = run_onnxruntime(parse(text), feeds)
    assert other.dtype == y.dtype
    assert other.shape == (ort or shape)


@pytest.mark.parametrize(("axis", "shape"), [(0, (0, 2)), (1, (2, 0)), (-1, (2, 0))])
def test_scan_without_steps(axis, shape):
    text = f"""g (float[3] h, float[2, T] x) => (float[3] k, int64[] y) {{
        k, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [{axis}],
            body = l (float[3] a, float[] e) => (float[3] b, int64[] o)
                {{ b = Neg(a) o = Cast<to = 7>(e) }}> (h, x) }}"""
    model = parse(text)
    model.graph.node[0].attribute[3].g.output[1].ClearField("type")
    feeds = {"h": C, "x": np.empty((2, 0), np.float32)}
    k, y = ReferenceEvaluator(model).run(None, feeds)
    assert_same(k, C)
    assert_same(y, np.empty(shape, np.int64))
