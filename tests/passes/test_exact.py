"""With ``exact`` a discrete node gets the bits that it gets where a sample is alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from passes.decisions import Code
from rewriter.pipeline import rewrite

WIDTH = 17
SAMPLES = 9

BODIES = {
    "a product in front of Floor": """
        m = MatMul (e, w)
        l = Mul (m, large)
        y = Floor (l)""",
    "a sum in front of a comparison": """
        s = ReduceSum <keepdims = 1> (e)
        l = Mul (s, large)
        f = Floor (l)
        y = Less (f, l)""",
    "a function of numbers in front of Cast": """
        a = Atan (e)
        l = Mul (a, large)
        y = Cast <to = 7> (l)""",
    "through a node that is exact": """
        m = MatMul (e, w)
        l = Mul (m, large)
        n = Neg (l)
        y = Round (n)""",
    "inside of a branch": """
        m = MatMul (e, w)
        l = Mul (m, large)
        y = If (flag) <
          then_branch = then () => (p) { p = Floor (l) },
          else_branch = else () => (q) { q = Ceil (l) }>""",
    "behind a branch for each sample": """
        k = ReduceMax <keepdims = 0> (e)
        g = Greater (k, two_of_float)
        a = If (g) <
          then_branch = then () => (p) { p = Atan (e) },
          else_branch = else () => (q) { q = Neg (e) }>
        l = Mul (a, large)
        y = Cast <to = 7> (l)""",
    "in the next step of a loop": """
        last, y = Loop (two, , e) <body = steps (int64 i, bool c, float[17] s) =>
            (bool d, float[17] t, int64[17] o) {
          d = Identity (c)
          t = Atan (s)
          l = Mul (s, large)
          o = Cast <to = 7> (l) }>""",
    "in front of a branch for each sample": """
        a = Atan (e)
        l = Mul (a, large)
        k = ReduceMax <keepdims = 0> (l)
        c = Cast <to = 7> (k)
        r = Mod (c, two)
        g = Cast <to = 9> (r)
        y = If (g) <
          then_branch = then () => (p) { p = Neg (one) },
          else_branch = else () => (q) { q = Unique (one) }>""",
    "in front of what is never batched": """
        m = MatMul (e, w)
        l = Mul (m, large)
        f = Floor (l)
        z = Sub (l, f)
        n = NonZero (z)
        y = ReduceSum <keepdims = 0> (n)""",
}


def model_of(body: str) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "w": rng.standard_normal((WIDTH, 3)).astype(np.float32),
        "large": np.array(2.0**26, np.float32),
        "flag": np.array(True),
        "one": np.ones(1, np.float32),
        "two": np.array(2, np.int64),
        "two_of_float": np.array(2, np.float32),
    }
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        f"g (float[N,{WIDTH}] x) => (ys) {{"
        "xs = SplitToSequence <axis = 0, keepdims = 0> (x)"
        f"ys = SequenceMap (xs) <body = b (e) => (y) {{ {body} }}> }}"
    )
    for name, array in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    typed = onnx.shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(typed.graph.output[0])
    return model


def run(model: Any, x: Any) -> list[Any]:
    """Run every node as it stands: a fusion of nodes rounds in another way."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {"x": x})[0])


def feed() -> Any:
    return np.random.default_rng(1).standard_normal((SAMPLES, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_exact_keeps_the_bits(body: str) -> None:
    model = model_of(body)
    alone = run(rewrite(model, strategy="expand").model, feed())
    done = rewrite(model, strategy="fuse", exact=True)
    batched = run(done.model, feed())
    assert [a.tobytes() for a in batched] == [a.tobytes() for a in alone]


FLIPPING = [
    "a function of numbers in front of Cast",
    "behind a branch for each sample",
    "in the next step of a loop",
]


@pytest.mark.parametrize("name", FLIPPING)
def test_without_exact_they_flip(name: str) -> None:
    """Should this fail, onnxruntime rounds alike and the test above shows nothing."""
    model = model_of(BODIES[name])
    alone = run(rewrite(model, strategy="expand").model, feed())
    batched = run(rewrite(model, strategy="fuse").model, feed())
    assert [a.tobytes() for a in batched] != [a.tobytes() for a in alone]


def test_what_is_kept_says_so_and_the_rest_is_fused() -> None:
    body = "n = Neg (e)  m = MatMul (n, w)  l = Mul (m, large)  f = Floor (l)  y = Abs (f)"
    decision = rewrite(model_of(body), strategy="fuse", exact=True).report.decisions[0]
    exact = [r for r in decision.reasons if r.code is Code.EXACT]
    assert {r.op_type for r in exact} == {"MatMul", "Mul"}
    assert decision.form == "2 nodes in 1 loop"
    assert decision.notes == []


@pytest.mark.parametrize(("to", "is_kept"), [(1, False), (11, False), (10, True), (7, True)])
def test_a_cast_that_rounds_no_float_is_not_discrete(to: int, is_kept: bool) -> None:
    model = model_of(f"a = Atan (e)  y = Cast <to = {to}> (a)")
    decision = rewrite(model, strategy="fuse", exact=True).report.decisions[0]
    assert any(r.code is Code.EXACT for r in decision.reasons) == is_kept


def test_a_branch_that_rounds_nothing_is_fused() -> None:
    body = """k = ReduceMax <keepdims = 0> (e)  g = Greater (k, two_of_float)
        a = If (g) <then_branch = then () => (p) { p = Abs (e) },
            else_branch = else () => (q) { q = Neg (e) }>
        y = Floor (a)"""
    decision = rewrite(model_of(body), strategy="fuse", exact=True).report.decisions[0]
    assert not decision.reasons


def test_what_reads_such_a_cast_may_flip() -> None:
    model = model_of("a = Atan (e)  c = Cast <to = 11> (a)  y = Floor (c)")
    decision = rewrite(model, strategy="fuse", exact=True).report.decisions[0]
    assert "Atan" in {r.op_type for r in decision.reasons if r.code is Code.EXACT}
