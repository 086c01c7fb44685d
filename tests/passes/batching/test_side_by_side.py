"""Reductions over samples that differ in length, before ScatterElements reduces (opset 16, 18).

Each case is a loop over spans of rows, as exporters write it, against its rewritten form.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from tests.passes.batching.harness import Array, run_model

REDUCTIONS = [
    f"Reduce{kind}"
    for kind in [
        "Sum",
        "Max",
        "Min",
        "Mean",
        "Prod",
        "L1",
        "L2",
        "SumSquare",
        "LogSum",
        "LogSumExp",
    ]
]
PIPELINES = Path(__file__).parents[3] / "models" / "pipelines"
ONE_LONG = (40, 1, 0, 1, 2, 1, 1, 0, 1, 1, 1, 3)
"""Lengths that the padded form would make 9 times as large."""


def _node(op: str, opset: int) -> str:
    """Return the nodes that make ``[2]`` or ``[1, 2]`` of rows ``[n, 2]``."""
    if op in ("ArgMax", "ArgMin"):
        return f"y = {op}<axis=0>(s)"
    node = f"{op}<axes=[0], keepdims=0>"
    if op == "ReduceSum" and opset >= 13:
        return "y = ReduceSum<keepdims=0>(s, zero)"
    if op in ("Softmax", "LogSoftmax"):
        total = _node("ReduceSum", opset).replace("(s", "(weighed")
        return f"p = {op}<axis=0>(s) weighed = Mul(p, s) {total}"
    return f"y = {node}(s)"


def _model(op: str, opset: int, kind: str = "float") -> onnx.ModelProto:
    result = "int64" if op.startswith("Arg") else kind
    cut = """
        u = Unsqueeze(start, zero) v = Unsqueeze(end, zero)
        s = Slice(x, u, v, zero)"""
    if opset < 13:
        cut = """
        u = Unsqueeze<axes=[0]>(start) v = Unsqueeze<axes=[0]>(end)
        s = Slice(x, u, v, zero)"""
    return onnx.parser.parse_model(f"""<ir_version: 7, opset_import: ["" : {opset}]>
      g ({kind}[t, 2] x, int64[b] starts, int64[b] ends) => ({result}[d, e, f] all)
      <int64[1] zero = {{0}}, int64 first = {{0}}, bool yes = {{1}}> {{
        sizes = Shape(starts)
        count = Gather(sizes, first)
        all = Loop(count, yes) <body = step (int64 i, bool c) => (bool c2, {result}[g, h] y) {{
          c2 = Identity(c)
          start = Gather(starts, i)
          end = Gather(ends, i)
          {cut}
          {_node(op, opset)} }}> }}""")


def _untyped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose result may have any rank."""
    body = model.graph.node[-1].attribute[0].g
    for value in (model.graph.output[0], body.output[1]):
        value.type.tensor_type.ClearField("shape")
    return model


def _feeds(lengths: Sequence[int], x: Array | None = None) -> dict[str, Array]:
    ends = np.cumsum(np.array(lengths, np.int64))
    drawn = np.random.default_rng(0).uniform(0.5, 1.5, (sum(lengths), 2)).astype(np.float32)
    starts = ends - np.array(lengths, np.int64)
    return {"x": drawn if x is None else x, "starts": starts, "ends": ends}


def _prove(model: onnx.ModelProto, feeds: Sequence[dict[str, Array]], target: str) -> None:
    new = rewriter.optimize(model, strategy="fuse", target=target, require="loop-free")
    for one in feeds:
        (want,) = run_model(model, one)
        (got,) = run_model(new, one)
        if len(one["starts"]):
            assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want.reshape(got.shape), rtol=1e-5, atol=1e-6)


TARGETS = pytest.mark.parametrize("target", ["onnxruntime", "portable"])
LENGTHS = [(), (3,), (0,), (2, 0, 3), (0, 0, 0), (2, 2, 2), (1, 7, 1), ONE_LONG]


@pytest.mark.sampled
@TARGETS
@pytest.mark.parametrize("opset", [12, 13, 15, 17])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_reduction_equals_the_loop(op: str, opset: int, target: str) -> None:
    _prove(_untyped(_model(op, opset)), [_feeds(one) for one in LENGTHS], target)


@TARGETS
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_over_rows_equals_the_loop(op: str, target: str) -> None:
    _prove(_untyped(_model(op, 15)), [_feeds(one) for one in LENGTHS], target)


@pytest.mark.sampled
@TARGETS
@pytest.mark.parametrize("opset", [12, 15])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_best_row_equals_the_loop(op: str, opset: int, target: str) -> None:
    full = [tuple(n or 4 for n in one) for one in LENGTHS]
    _prove(_untyped(_model(op, opset)), [_feeds(one) for one in full], target)


@TARGETS
@pytest.mark.parametrize("kind", ["int32", "int64", "double"])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceProd"])
def test_other_element_types(op: str, kind: str, target: str) -> None:
    dtype = np.float64 if kind == "double" else np.dtype(kind)
    feeds = []
    for lengths in LENGTHS:
        x = np.random.default_rng(1).integers(-3, 3, (sum(lengths), 2))
        feeds.append(_feeds(lengths, x.astype(dtype)))
    _prove(_untyped(_model(op, 15, kind)), feeds, target)


@TARGETS
@pytest.mark.parametrize("lengths", [(3, 1, 2), ONE_LONG], ids=["at once", "pieces"])
@pytest.mark.parametrize("op", [op for op in REDUCTIONS if op not in ("ReduceMax", "ReduceMin")])
def test_nan_and_infinities_stay_in_their_sample(
    op: str, lengths: tuple[int, ...], target: str
) -> None:
    feeds = _feeds(lengths)
    for row, number in ((lengths[0] - 1, np.nan), (lengths[0], np.inf), (-1, -np.inf)):
        feeds["x"][row, 0] = number
    _prove(_untyped(_model(op, 15)), [feeds], target)


@TARGETS
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extrema_of_infinities(op: str, target: str) -> None:
    feeds = _feeds(ONE_LONG)
    feeds["x"][::3] = np.inf
    feeds["x"][1::3] = -np.inf
    _prove(_untyped(_model(op, 15)), [feeds], target)


VECTORS = [
    (name, path)
    for name in ("ts_fasttext_classifier", "ts_pointnet_ragged")
    for path in sorted(PIPELINES.glob(f"{name}*.npz"))
]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize(("name", "path"), VECTORS, ids=lambda one: getattr(one, "stem", ""))
def test_whole_models_of_old_opsets_are_batched(name: str, path: Path, strategy: Any) -> None:
    result = rewriter.rewrite(PIPELINES / f"{name}.onnx", strategy=strategy)
    (decision,) = result.report.decisions
    assert decision.verdict is Verdict.FUSED
    assert strategy == "auto" or not result.report.after.loops
    with np.load(path) as vector:
        got = rewriter.run(result.model, path)
        for position, array in enumerate(got.values()):
            want = vector[f"out__{position}"]
            np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("columns", "made_by"), [("2", "Constant"), ("C", "Concat")])
def test_how_large_a_row_is_is_not_asked_where_it_is_known(columns: str, made_by: str) -> None:
    given = onnx.ModelProto.FromString(_untyped(_model("ReduceMax", 15)).SerializeToString())
    (x,) = (value for value in given.graph.input if value.name == "x")
    dim = x.type.tensor_type.shape.dim[1]
    dim.CopyFrom(type(dim)(dim_value=2) if columns == "2" else type(dim)(dim_param=columns))
    new = ir.from_proto(rewriter.optimize(given, strategy="fuse"))
    nodes = [node for node in new.graph.all_nodes() if node.op_type == "ConstantOfShape"]
    rows = [n for n in nodes if n.attributes.get_tensor("value").dtype == ir.DataType.FLOAT]
    assert {node.inputs[0].producer().op_type for node in rows} == {made_by}


def _largest(model: onnx.ModelProto, feeds: dict[str, Array]) -> int:
    """Return the number of elements of the largest Gather."""
    shown = onnx.ModelProto.FromString(model.SerializeToString())
    names = [node.output[0] for node in shown.graph.node if node.op_type == "Gather"]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return max(array.size for array in run_model(shown, feeds)[1:])


def test_one_long_sample_does_not_multiply_the_memory() -> None:
    new = rewriter.optimize(_untyped(_model("ReduceMean", 15)), strategy="fuse", target="portable")
    feeds = _feeds((10_000, *[1] * 4095))
    padded = 10_000 * 4096 * 2
    assert _largest(new, feeds) < padded / 40
    assert _largest(new, _feeds((50,) * 200)) == 50 * 200 * 2
