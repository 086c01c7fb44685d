"""Losses over classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Code
from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import BATCHES, Case, Operand, constant, mapped, prove, shared


def classes(*shape: int, dtype: Any = np.int64, ignored: int | None = None) -> Operand:
    """Draw targets of 3 classes, some of them ignored, at least one not."""
    rng = np.random.default_rng(7)
    drawn = [rng.integers(0, 3, shape).astype(dtype) for _ in range(3)]
    if ignored is not None:
        for sample in drawn:
            sample.reshape(-1)[1::2] = ignored
    return mapped(*drawn)


def positive(*shape: int) -> Operand:
    rng = np.random.default_rng(3)
    return mapped(*(rng.random(shape).astype(np.float32) + 0.1 for _ in range(3)))


X, T = mapped((4, 3)), classes(4)
X4, T4 = mapped((2, 3, 2, 2)), classes(2, 2, 2)
W = positive(3)
LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
FORMS: list[tuple[str, str, Mapping[str, Operand]]] = [
    ("mean by default", "", {"x": X, "t": T}),
    ("none", '<reduction = "none">', {"x": X, "t": T}),
    ("sum", '<reduction = "sum">', {"x": X, "t": T}),
    ("rank 4", "", {"x": X4, "t": T4}),
    ("rank 4, none", '<reduction = "none">', {"x": X4, "t": T4}),
    ("rank 3, sum", '<reduction = "sum">', {"x": mapped((2, 3, 5)), "t": classes(2, 5)}),
    ("constant weights", "", {"x": X, "t": T, "w": constant(W.first)}),
    ("weights", '<reduction = "none">', {"x": X4, "t": T4, "w": shared(W.first)}),
    ("weights, sum", '<reduction = "sum">', {"x": X, "t": T, "w": shared(W.first)}),
    ("mapped weights", "", {"x": X4, "t": T4, "w": W}),
    ("mapped weights, none", '<reduction = "none">', {"x": X, "t": T, "w": W}),
    ("all shared but weights", "", {"x": shared(X.first), "t": shared(T.first), "w": W}),
    ("shared targets", "", {"x": X4, "t": shared(T4.first)}),
    ("shared data", '<reduction = "sum">', {"x": shared(X.first), "t": T}),
    ("ignored", "<ignore_index = -1>", {"x": X, "t": classes(4, ignored=-1)}),
    (
        "ignored, of one class",
        "<ignore_index = -1>",
        {"x": mapped((4, 1)), "t": mapped(*[np.array([0, -1, 0, -1])] * 3)},
    ),
    ("ignored class", "<ignore_index = 0>", {"x": X4, "t": classes(2, 2, 2, ignored=0)}),
    (
        "ignored, none",
        '<reduction = "none", ignore_index = 5>',
        {"x": X, "t": classes(4, ignored=5)},
    ),
    (
        "ignored, weights",
        "<ignore_index = -100>",
        {"x": X4, "t": classes(2, 2, 2, ignored=-100), "w": constant(W.first)},
    ),
    (
        "ignored, mapped weights",
        "<ignore_index = -1>",
        {"x": X, "t": classes(4, ignored=-1), "w": W},
    ),
    (
        "all ignored",
        "<ignore_index = 1>",
        {"x": X, "t": constant(np.ones(4, np.int64)), "w": W},
    ),
    ("int32 targets", "<ignore_index = 2>", {"x": X, "t": classes(4, dtype=np.int32)}),
    (
        "int32 targets, mapped weights",
        '<reduction = "sum">',
        {"x": X, "t": classes(4, dtype=np.int32), "w": W},
    ),
    ("doubles", "", {"x": mapped((4, 3), dtype=np.float64), "t": T}),
]


def loss(op_type: str, form: tuple[str, str, Mapping[str, Operand]], **more: Any) -> Case:
    name, attributes, operands = form
    text = f"y = {op_type}{attributes}({', '.join(operands)})"
    return Case(f"{op_type} {name}", text, operands, **more)


def logs(form: tuple[str, str, Mapping[str, Operand]], **more: Any) -> Case:
    """Return a case with both outputs of SoftmaxCrossEntropyLoss."""
    name, attributes, operands = form
    text = f"y, p = SoftmaxCrossEntropyLoss{attributes}({', '.join(operands)})"
    return Case(
        f"SoftmaxCrossEntropyLoss {name}, and logarithms", text, operands, ("y", "p"), **more
    )


CASES = [
    *(loss(op_type, form) for op_type in LOSSES for form in FORMS),
    *(logs(form) for form in FORMS),
    *(loss(op_type, FORMS[i], symbolic=True) for op_type in LOSSES for i in (0, 4, 6, 13)),
    *(loss(op_type, FORMS[3], opset=22) for op_type in LOSSES),
    logs(FORMS[4], opset=22),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    *(loss(op_type, FORMS[i], opset=12) for op_type in LOSSES for i in (0, 1, 3, 5, 9, 14)),
    logs(FORMS[3], opset=12),
    logs(FORMS[8], opset=12),
    logs(FORMS[4], opset=13),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


@pytest.mark.parametrize("op_type", LOSSES)
def test_samples_do_not_leak_into_each_other(op_type: str) -> None:
    rows = [np.full((4, 3), n, np.float32) for n in (np.nan, 1, np.inf)]
    prove(Case(op_type, f"y = {op_type}(x, t)", {"x": mapped(*rows), "t": T}), 3)


LISTS = {
    "stacked": "(seq(float[4,3]) s, seq(int64[4]) t) => (seq(float) y) {",
    "packed": """(float[M,3] a, int64[M] b, int64[B] n) => (seq(float) y) {
        s = SplitToSequence <axis = 0> (a, n)  t = SplitToSequence <axis = 0> (b, n)""",
}


@pytest.mark.parametrize("op_type", LOSSES)
@pytest.mark.parametrize("layout", LISTS)
def test_a_reduction_that_onnx_does_not_have_stays_in_the_loop(op_type: str, layout: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 17]> g {LISTS[layout]}
            y = SequenceMap (s, t) <body = b (float[N,3] x, int64[N] c) => (float l)
                {{ l = {op_type} <reduction = "max"> (x, c) }}> }}"""
    )
    uniform = ["s", "t"] if layout == "stacked" else []
    (decision,) = rewriter.explain(model, strategy="fuse", uniform=uniform).decisions
    first = decision.reasons[0]
    assert first.code is Code.NO_RULE
    assert "none of ONNX's" in first.detail


@pytest.mark.parametrize("op_type", LOSSES)
def test_halves_of_any_length_stay_in_the_loop(op_type: str) -> None:
    """onnxruntime adds no halves by ScatterElements."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 17]>
        g (float16[M,3] a, int64[M] b, int64[B] n) => (seq(float16) y) {{
            s = SplitToSequence <axis = 0> (a, n)  t = SplitToSequence <axis = 0> (b, n)
            y = SequenceMap (s, t) <body = b (float16[N,3] x, int64[N] c) => (float16 l)
                {{ l = {op_type} (x, c) }}> }}"""
    )
    (decision,) = rewriter.explain(model, strategy="fuse").decisions
    assert decision.reasons[0].code is Code.NO_RULE
    assert decision.reasons[0].detail.endswith("it has none for FLOAT16")
