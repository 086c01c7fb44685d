"""Loops that the host runs are kept there whole where each iteration would copy."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.host_loops import HOST_LAYER, HostLoopsPass
from rewriter.backends import open_session, placement
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import copying_loops
from rewriter.placement.placing import place
from rewriter.target_table import find_target
from tests import software_gpu
from tests.rewriter.cli_models import seqmap

HEAD = '<ir_version: 9, opset_import: ["" : 18]>'


def listed(body: str, further: str = "") -> str:
    """A Loop over the elements of a list, which the host holds."""
    return f"""{HEAD} g (seq(float[M, 3]) xs) => (seq(float[M, K]) ys) {further} {{
        n = SequenceLength (xs)  yes = Constant <value = bool {{1}}> ()  e = SequenceEmpty ()
        ys = Loop (n, yes, e) <body = b (int64 i, bool c, seq(float[M, K]) a)
            => (bool d, seq(float[M, K]) o) {{
            d = Identity (c)  x = SequenceAt (xs, i)  {body}  o = SequenceInsert (a, y) }}> }}"""


INNER = """z = Constant <value = int64 {2}> ()  t = Constant <value = bool {1}> ()
    y = Loop (z, t, x) <body = inner (int64 j, bool p, float[M, 3] s) => (bool q, float[M, 3] u) {
        q = Identity (p)  k = Cast <to = 1> (j)  r = Add (s, k)  u = Relu (r) }>"""
CASES = {
    "elements of a list": listed("p = Neg (x)  y = Relu (p)"),
    "a product of matrices": listed("y = MatMul (x, w)", "<float[3, 2] w = {1, 2, 3, 4, 5, 6}>"),
    "an operator that onnxruntime opens": listed("y = HardSwish (x)"),
    "a branch": listed(
        """h = ReduceSum <keepdims = 0> (x)  f = Constant <value = float {0}> ()
        m = Greater (h, f)  y = If (m) <then_branch = one () => (float[M, 3] v) { v = Neg (x) },
            else_branch = two () => (float[M, 3] w) { w = Exp (x) }>"""
    ),
    "a loop in a loop": listed(INNER),
}
STATES = f"""{HEAD} g (int64 n, float[M, 3] x) => (float[M, 3] y) {{
    yes = Constant <value = bool {{1}}> ()
    y = Loop (n, yes, x) <body = b (int64 i, bool c, float[M, 3] a)
        => (bool d, float[M, 3] o) {{ d = Identity (c)  p = Neg (a)  o = Exp (p) }}> }}"""


def kept(model: onnx.ModelProto, target: str = "webgpu") -> tuple[ir.Model, bool]:
    loaded = from_proto(model)
    one = HostLoopsPass(functools.partial(copying_loops, target))
    modified = one(loaded).modified
    onnx.checker.check_model(ir.to_proto(loaded), full_check=True)
    assert not one(loaded).modified
    return loaded, modified


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_a_loop_that_copies_stays_on_the_host(text: str) -> None:
    given = onnx.parser.parse_model(text)
    model, modified = kept(given)
    assert modified
    target = find_target("webgpu")
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert before.copies_per_iteration > after.copies_per_iteration == 0
    assert (before.settings, after.settings) == ({}, dict([HOST_LAYER]))
    assert any(one.reason.startswith("kept on the host with its loop") for one in after.host)


def test_what_the_device_holds_stays_there() -> None:
    assert not kept(onnx.parser.parse_model(STATES))[1]


@pytest.mark.parametrize(("columns", "modified"), [(2**18, True), (2**19, False)])
def test_a_loop_that_reads_many_weights_stays_on_the_device(columns: int, modified: bool) -> None:
    model = onnx.parser.parse_model(listed("y = MatMul (x, w)"))
    weights = np.zeros((3, columns), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    assert kept(model)[1] is modified


def test_the_layer_that_an_author_chose_stays() -> None:
    model = onnx.parser.parse_model(CASES["elements of a list"])
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    loop.metadata_props.add(key="layer_ann", value="mine")
    assert not kept(model)[1]


def test_the_entry_is_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.onnx"
    model, _ = kept(onnx.parser.parse_model(CASES["elements of a list"]))
    onnx.save(ir.to_proto(model), path)
    assert seqmap("explain", path, "--target", "webgpu") == 0
    assert " = ".join(HOST_LAYER) in capsys.readouterr().out


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_the_adapter_is_handed_nothing(text: str) -> None:
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    software_gpu.start()
    given = onnx.parser.parse_model(text)
    model = ir.to_proto(kept(given)[0])
    # A session whose device takes no node is refused.
    model.graph.node.append(onnx.helper.make_node("Relu", ["free"], ["taken"]))
    for value, places in (("free", model.graph.input), ("taken", model.graph.output)):
        places.append(onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, [2]))
    xs = [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (2, 1, 5)]
    feeds = {"xs": xs, "free": np.float32([1, -1])}
    session = open_session(model, device="webgpu")
    made = placement(session, feeds)
    assert made is not None
    assert (made.to_device, made.to_host) == (0, 0)
    expected = rewriter.run(given, {"xs": xs})["ys"]
    for one, other in zip(session.run(feeds)["ys"], expected, strict=True):
        np.testing.assert_array_equal(one, other)


BRANCHES = f"""{HEAD} g (seq(float[M, 3]) xs, float[N, 3] z, bool t) => (float[K, 2] y)
    <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}> {{
    y = If (t) <then_branch = one () => (float[N, 2] v) {{ v = MatMul (z, w) }},
        else_branch = two () => (float[1, 2] u) {{
            n = SequenceLength (xs)  yes = Constant <value = bool {{1}}> ()
            none = Constant <value = float[1, 2] {{0, 0}}> ()
            u = Loop (n, yes, none) <body = b (int64 i, bool c, float[1, 2] a)
                => (bool d, float[1, 2] o) {{
                d = Identity (c)  x = SequenceAt (xs, i)  p = MatMul (x, w)
                k = Constant <value_ints = [0]> ()  s = ReduceSum (p, k)  o = Add (a, s) }}> }}> }}"""


def test_a_loop_in_a_branch_has_weights_of_its_own() -> None:
    """Otherwise what the device reads of them in the other branch fails in onnxruntime."""
    loaded, modified = kept(onnx.parser.parse_model(BRANCHES))
    assert modified
    assert sorted(loaded.graph.initializers) == ["w", "w/host"]
    if software_gpu.why_not():
        return
    software_gpu.start()
    session = open_session(ir.to_proto(loaded), device="webgpu")
    ones = np.ones((2, 3), np.float32)
    for taken, rows in ((True, [[9, 12], [9, 12]]), (False, [[27, 36]])):
        feeds = {"xs": [ones, ones[:1]], "z": ones, "t": np.array(taken)}
        np.testing.assert_allclose(session.run(feeds)["y"], rows)
