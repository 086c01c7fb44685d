"""BatchNormalization in training mode, by its definition in the place of onnxruntime's kernel."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.runtimes import SidestepDefectsPass
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.model_files.checking import check
from rewriter.options import Strategy
from tests.passes.runtimes.upstream import run

TYPES = {
    "floats": ("float", "float", "float", 15, np.float32),
    "floats of opset 18": ("float", "float", "float", 18, np.float32),
    "weights of another type": ("float", "float", "double", 15, np.float32),
    "doubles": ("double", "double", "double", 15, np.float64),
}
SHAPES = {"vectors": (5, 3), "lines": (2, 3, 4), "images": (2, 3, 4, 5)}


def graph(data: str, scale: str, statistics: str, opset: int, rank: int) -> onnx.ModelProto:
    dims = ", ".join(f"D{at}" for at in range(rank))
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g ({data}[{dims}] x, {scale}[C] s, {scale}[C] b, {statistics}[C] m, {statistics}[C] v)
            => ({data}[{dims}] y, {statistics}[C] p, {statistics}[C] q) {{
            y, p, q = BatchNormalization <training_mode = 1, momentum = 0.7, epsilon = 0.5>
                (x, s, b, m, v) }}""")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("data", "scale", "statistics", "opset", "dtype"), TYPES.values(), ids=TYPES
)
def test_the_definition(
    data: str, scale: str, statistics: str, opset: int, dtype: type, shape: tuple[int, ...]
) -> None:
    proto = graph(data, scale, statistics, opset, len(shape))
    draw = np.random.default_rng(0)
    kept = np.float64 if statistics == "double" else np.float32
    feeds = {
        "x": draw.normal(size=shape).astype(dtype),
        **{name: draw.normal(size=3).astype(dtype) for name in "sb"},
        **{name: draw.uniform(1, 2, size=3).astype(kept) for name in "mv"},
    }
    model = ir.from_proto(proto)
    assert SidestepDefectsPass()(model).modified
    check(model)
    made = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    axes = tuple(at for at in range(len(shape)) if at != 1)
    by_channel = (1, 3, *[1] * (len(shape) - 2))
    x = feeds["x"].astype(np.float64)
    mean, variance = x.mean(axes), x.var(axes)
    normal = (x - mean.reshape(by_channel)) / np.sqrt(variance.reshape(by_channel) + 0.5)
    expected = [
        normal * feeds["s"].reshape(by_channel) + feeds["b"].reshape(by_channel),
        0.7 * feeds["m"] + 0.3 * mean,
        0.7 * feeds["v"] + 0.3 * variance,
    ]
    types = [dtype, kept, kept]
    for one, wanted, type_ in zip(made, expected, types, strict=True):
        assert one.dtype == type_
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_a_map_whose_weights_are_one_initializer(strategy: Strategy) -> None:
    """The scale is the variance, too: no sample may read what the one before it left there."""
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[N, 4, 2] x) => (float[N, 4, 2] y)
            <float[2] v = {1, 2}, float[2] m = {0, 0}, float[2] b = {0, 1}> {
            xs = SplitToSequence <axis = 0, keepdims = 0> (x)
            ys = SequenceMap (xs) <body = f (float[4, 2] e) => (float[4, 2] r) {
                r, p, q = BatchNormalization <training_mode = 1, epsilon = 0.0> (e, v, b, m, v) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }""")
    x = np.random.default_rng(1).normal(size=(3, 4, 2)).astype(np.float32)
    normal = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    expected = normal * np.array([1, 2], np.float32) + np.array([0, 1], np.float32)
    found = run(rewriter.optimize(proto, strategy=strategy), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
