"""Elements of one list that each sample picks, ``[xs[i] for i in ids]``, without a loop."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.compare import compare

pytestmark = pytest.mark.quick

LOOP = """<ir_version: 8, opset_import: ["" : 18]>
g (seq(float[{element}]) xs, int64[B] ids) => (seq(float[{result}]) ys) {{
    count = Size (ids) yes = Constant <value = bool {{1}}> () none = SequenceEmpty ()
    ys = Loop (count, yes, none) <body = b (int64 k, bool c, seq(float[{result}]) a)
        => (bool d, seq(float[{result}]) z) {{
        d = Identity (c) i = Gather (ids, k) x = SequenceAt (xs, i) {nodes}
        z = SequenceInsert (a, y) }}> }}"""
MAP = """<ir_version: 8, opset_import: ["" : 18]>
g (seq(float[{element}]) xs, int64[B] ids) => (seq(float[{result}]) ys) {{
    s = SplitToSequence <keepdims = 0> (ids)
    ys = SequenceMap (s) <body = b (int64 i) => (float[{result}] y) {{
        x = SequenceAt (xs, i) {nodes} }}> }}"""
CASES = {
    "images": ("3,H,W", "3,?,?", "y = Neg (x)"),
    "images, as they are": ("3,H,W", "3,?,?", "y = Identity (x)"),
    "images, to one number each": ("3,H,W", "", "y = ReduceMax <keepdims = 0> (x)"),
    "images with channels behind": ("H,W,3", "?,?,3", "y = Abs (x)"),
    "vectors": ("L", "?", "y = Neg (x)"),
    "rows": ("L,4", "?,4", "y = Neg (x)"),
    "rows, to one each": (
        "L,4",
        "4",
        "z0 = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (x, z0)",
    ),
    "the one before": (
        "3,H,W",
        "3,?,?",
        "one = Constant <value_int = 1> () j = Sub (i, one) "
        "w = SequenceAt (xs, j) m = ReduceMax <keepdims = 0> (w) y = Mul (x, m)",
    ),
}
IDS: tuple[list[int], ...] = ([], [0], [2, 2, 0], [-1, 1, 0, 2, -3], [1, 1, 1])


def _elements(element: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    known = [int(dim) if dim.isdigit() else None for dim in element.split(",")]
    shapes = [[dim or size + at for at, dim in enumerate(known)] for size in (2, 4, 1)]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("form", [LOOP, MAP], ids=["Loop", "SequenceMap"])
@pytest.mark.parametrize("name", CASES)
def test_picked_elements(name: str, form: str) -> None:
    element, result, nodes = CASES[name]
    given = onnx.parser.parse_model(form.format(element=element, result=result, nodes=nodes))
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    io = TensorIo.read(models.take(after).model)
    old, new = rewriter.ReferenceEvaluator(given), backends.open_session(after, "onnxruntime")
    xs = _elements(element)
    for ids in IDS:
        if name == "the one before":
            ids = [one for one in ids if one > -3]
        feeds = {"xs": xs, "ids": np.array(ids, np.int64)}
        wanted = dict(zip(["ys"], old.run(None, feeds), strict=True))
        difference = compare(wanted, outputs_as_lists(io, new.run(feeds)))
        assert difference.equal, difference.message


CUT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[T, 2] x, {dtype}[N] n, int64[B] ids) => (float[B, 2] y) {{
    count = Size (ids) yes = Constant <value = bool {{1}}> () xs = SplitToSequence {keep} (x, n)
    y = Loop (count, yes) <body = b (int64 k, bool c) => (bool d, float[2] s) {{
        d = Identity (c) i = Gather (ids, k) e = SequenceAt (xs, i)
        first = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 0> (e, first) }}> }}"""


@pytest.mark.parametrize("keep", ["", "<keepdims = 0>"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_slices_of_given_lengths(dtype: str, keep: str) -> None:
    given = onnx.parser.parse_model(CUT.format(dtype=dtype, keep=keep))
    after = rewriter.optimize(given, strategy="fuse")
    assert isinstance(after, onnx.ModelProto)
    assert "Loop" not in [node.op_type for node in after.graph.node]
    old, new = (backends.open_session(one, "onnxruntime") for one in (given, after))
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    for ids in IDS:
        feeds = {"x": x, "n": np.array([2, 0, 4], dtype), "ids": np.array(ids, np.int64)}
        difference = compare(old.run(feeds), new.run(feeds))
        assert difference.equal, difference.message
    with pytest.raises(rewriter.RewriteError):
        new.run({"x": x, "n": np.array([2, 0, 3], dtype), "ids": np.array([0])})


@pytest.mark.parametrize("element", ["3,H,W", "L"])
@pytest.mark.parametrize("at", [3, -4])
def test_a_position_that_is_not_there_is_an_error(element: str, at: int) -> None:
    text = LOOP.format(element=element, result="", nodes="y = ReduceMax <keepdims = 0> (x)")
    after = rewriter.optimize(onnx.parser.parse_model(text), target="portable", tensor_io=True)
    new = backends.open_session(after, "onnxruntime")
    with pytest.raises(rewriter.RewriteError):
        new.run({"xs": _elements(element), "ids": np.array([0, at])})


ROWS = """<ir_version: 8, opset_import: ["" : 18]>
g (float[T, 2, 3] x, int64[B] ids) => (float[B, 3] y) {{
    count = Size (ids) yes = Constant <value = bool {{1}}> () xs = SplitToSequence {keep} (x)
    y = Loop (count, yes) <body = b (int64 k, bool c) => (bool d, float[3] s) {{
        d = Identity (c) i = Gather (ids, k) e = SequenceAt (xs, i)
        m = SequenceAt (xs, k) f = Sub (e, m) {sum} }}> }}"""


@pytest.mark.parametrize("keep", [True, False])
def test_rows_of_a_tensor(keep: bool) -> None:
    """Each is mixed with another one, by a permutation that is given."""
    axes = "0, 1" if keep else "0"
    add = f"at = Constant <value_ints = [{axes}]> () s = ReduceSum <keepdims = 0> (f, at)"
    split = "" if keep else "<keepdims = 0>"
    given = onnx.parser.parse_model(ROWS.format(keep=split, sum=add))
    after = rewriter.optimize(given, target="portable", tensor_io=True)
    assert isinstance(after, onnx.ModelProto)
    old, new = (backends.open_session(one, "onnxruntime") for one in (given, after))
    x = np.random.default_rng(0).standard_normal((3, 2, 3)).astype(np.float32)
    for ids in ([], [2], [2, 0, 1], [-1, 1, -3]):
        feeds = {"x": x, "ids": np.array(ids, np.int64)}
        difference = compare(old.run(feeds), new.run(feeds))
        assert difference.equal, difference.message
    for at in (3, -4):
        with pytest.raises(rewriter.RewriteError):
            new.run({"x": x, "ids": np.array([at])})
