"""Operators that onnxruntime fused are opened in maps: every activation, and what is added."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.batching.contributed_functions import fused_function
from rewriter.backends import run
from rewriter.pipeline import rewrite

_HEADER = '<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>'
FILTERED = "w = Reshape (k, ws) y = com.microsoft.FusedConv <{}> ({})"
MULTIPLIED = "w = Reshape (q, ms) v = Transpose (w) m = Reshape (x, rows) y = com.microsoft.FusedGemm <{}> ({})"
CASES = {
    "a convolution alone": FILTERED.format("pads = [1, 1, 1, 1]", "x, w"),
    "strides, groups, a bias": FILTERED.format(
        'group = 2, strides = [2, 1], activation = "Relu"', "x, w2, b"
    ).replace("ws)", "ws) w2 = Slice (w, zero, one, one)"),
    "Sigmoid": FILTERED.format('activation = "Sigmoid"', "x, w"),
    "Tanh": FILTERED.format('activation = "Tanh"', "x, w, b"),
    "LeakyRelu": FILTERED.format('activation = "LeakyRelu", activation_params = [0.3]', "x, w"),
    "HardSigmoid": FILTERED.format(
        'activation = "HardSigmoid", activation_params = [0.1, 0.4]', "x, w"
    ),
    "Clip": FILTERED.format('activation = "Clip", activation_params = [-0.5, 0.75]', "x, w"),
    "added, then Relu": FILTERED.format('activation = "Relu", pads = [1, 1, 1, 1]', "x, w, , x"),
    "a product and LeakyRelu": MULTIPLIED.format(
        'activation = "LeakyRelu", activation_alpha = 0.3', "m, v, b"
    ),
    "a scaled product, turned weights": MULTIPLIED.format(
        'activation = "Relu", alpha = 0.5, transB = 1', "m, w"
    ),
    "a product and HardSigmoid": MULTIPLIED.format(
        'activation = "HardSigmoid", activation_alpha = 0.1, activation_beta = 0.4',
        "m, v, b",
    ),
    **{
        f"a product and {name}": MULTIPLIED.format(f'activation = "{name}"{numbers}', "m, v")
        for name, numbers in {
            "Elu": ", activation_alpha = 0.3",
            "Relu": "",
            "Selu": ", activation_alpha = 1.5, activation_gamma = 1.1",
            "Sigmoid": "",
            "Softplus": "",
            "Softsign": "",
            "Tanh": "",
            "ThresholdedRelu": ", activation_alpha = 0.3",
        }.items()
    },
}


def model(nodes: str) -> onnx.ModelProto:
    rank = 2 if "Gemm" in nodes else 4
    dims = ",".join("?" * rank)
    k, q = (",".join(str((i * 7 % 11 - 5) / 8) for i in range(n)) for n in (36, 20))
    text = f"""{_HEADER} g (float[B,1,2,5,5] all) => (float[B,{dims}] result)
        <float[36] k = {{{k}}}, float[20] q = {{{q}}},
        float[2] b = {{0.5, -1.0}}, int64[4] ws = {{2, 2, 3, 3}}, int64[2] ms = {{2, 10}},
        int64[2] rows = {{5, 10}}, int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
        s = SplitToSequence <axis = 0, keepdims = 0> (all)
        r = SequenceMap (s) <body = f (float[1,2,5,5] x) => (float[{dims}] y) {{ {nodes} }}>
        result = ConcatFromSequence <axis = 0, new_axis = 1> (r) }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_what_was_fused_is_opened(name: str) -> None:
    given = model(CASES[name])
    result = rewrite(given, strategy="fuse", trust_types=True)
    assert not result.report.after.loops, result.report
    assert not any(node.domain == "com.microsoft" for node in result.model.graph.node)
    feeds = {"all": np.random.default_rng(0).standard_normal((3, 1, 2, 5, 5), np.float32)}
    expected, got = (run(one, feeds)["result"] for one in (given, result.model))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


UNKNOWN = {
    "an activation that onnxruntime lacks": 'activation = "Mish"',
    "a number that is missing": 'activation = "LeakyRelu"',
    "a number too many": 'activation = "Relu", activation_params = [0.5]',
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_onnxruntime_refuses_stays(name: str) -> None:
    result = rewrite(model(FILTERED.format(UNKNOWN[name], "x, w")), strategy="fuse")
    assert "com.microsoft::FusedConv" in result.report.after.by_type


def test_bounds_are_inputs_from_opset_11_on() -> None:
    attributes = {"activation": "Clip", "activation_params": [0.0, 1.0]}
    node = ir.node("FusedConv", [ir.Value(name="x")], attributes, domain="com.microsoft")
    assert fused_function(node, 10) is None
    assert fused_function(node, 11) is not None


ATTRIBUTES = {
    "Conv": 'auto_pad = "VALID", dilations = [2, 1], group = 2, kernel_shape = [3, 3], '
    "pads = [1, 1, 1, 1], strides = [2, 2]",
    "Gemm": "alpha = 0.5, beta = 2.0, transA = 1, transB = 1",
}


@pytest.mark.parametrize("op_type", ATTRIBUTES)
def test_it_keeps_what_the_operator_is_given(op_type: str) -> None:
    def attributes(domain: str, more: str) -> dict[str, object]:
        text = f"""{_HEADER} g (float[2,2] x) => (float[] y) {{
            y = {domain}{op_type} <{ATTRIBUTES[op_type]}{more}> (x, x, x) }}"""
        node = ir.from_onnx_text(text).graph.node(0)
        function = fused_function(node, 18)
        given = node if function is None else next(iter(function))
        return {name: attribute.value for name, attribute in given.attributes.items()}

    expected = attributes("", "")
    assert attributes("com.microsoft.Fused", ', activation = "Relu"') == expected
