"""Ifs in loops that the device decides: both branches run, and the result stays."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.decided_on_device import DecidedOnDevicePass
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import reads_on_host
from rewriter.placement.placing import place
from rewriter.target_table import find_target
from tests.test_zoo import load

ROOT = pathlib.Path(__file__).parents[3]

HEAD = '<ir_version: 9, opset_import: ["" : 18]> '


def looped(condition: str, then: str, other: str, *, behind: str = "") -> str:
    return f"""{HEAD} g (float[N,3] x, int64 n, float[3,3] w) => (float[K,3] y)
    <int64 one = {{1}}, float zero = {{0}}, bool yes = {{1}}, int64[1] axis = {{0}}> {{
        y = Loop (n, yes) <body = b (int64 i, bool c) => (bool d, float[3] r) {{
            d = Identity (c)  v = Gather (x, i)  {condition}
            {behind or "r"} = If (q) <then_branch = t () => (float[3] a) {{ {then} }},
                else_branch = e () => (float[3] b2) {{ {other} }}>
            {"r = Add (" + behind + ", v)" if behind else ""} }}> }}"""


BY_DATA = "s = ReduceSum <keepdims = 0> (v) q = Greater (s, zero)"
REPLACED = {
    "turned": looped(BY_DATA, "a = Identity (v)", "b2 = Neg (v)"),
    "computed with": looped(BY_DATA, "a = Mul (v, v)", "m = Neg (v) b2 = Add (m, v)"),
    "read by what follows": looped(BY_DATA, "a = Relu (v)", "b2 = Abs (v)", behind="h"),
    "by a truth value of the data": looped(
        "m = ReduceMax <keepdims = 0> (v) f = Less (m, zero) q = Not (f)",
        "a = Identity (v)",
        "b2 = Neg (v)",
    ),
    "one in the other": looped(
        BY_DATA,
        """a = If (q) <then_branch = t2 () => (float[3] a2) { a2 = Neg (v) },
            else_branch = e2 () => (float[3] b3) { b3 = Abs (v) }>""",
        "b2 = Identity (v)",
    ),
}
LEFT = {
    "by the iteration number": looped("q = Less (i, one)", "a = Identity (v)", "b2 = Neg (v)"),
    "by a size": looped("z = Size (x) q = Greater (z, i)", "a = Identity (v)", "b2 = Neg (v)"),
    "a product": looped(BY_DATA, "a = MatMul (v, w)", "b2 = Neg (v)"),
    "what could fail": looped(BY_DATA, "k = Cast <to = 7> (s) a = Gather (x, k)", "b2 = Neg (v)"),
    "other shapes": looped(
        BY_DATA,
        "k = Abs (v) a = Concat <axis = 0> (k, v)".replace("[3]", ""),
        "b2 = Neg (v)",
    )
    .replace("(float[3] a)", "(float[L] a)")
    .replace("float[3] r)", "float[M] r)")
    .replace("(float[K,3] y)", "(float[K,M] y)"),
    "no loop": f"""{HEAD} g (float[3] x) => (float[3] y) <float zero = {{0}}> {{
        s = ReduceSum <keepdims = 0> (x)  q = Greater (s, zero)
        y = If (q) <then_branch = t () => (float[3] a) {{ a = Neg (x) }},
            else_branch = e () => (float[3] b2) {{ b2 = Identity (x) }}> }}""",
}


def rewritten(text: str) -> tuple[onnx.ModelProto, ir.Model, bool]:
    given = onnx.parser.parse_model(text)
    onnx.checker.check_model(given, full_check=True)
    model = from_proto(given)
    modified = DecidedOnDevicePass(reads_on_host("cuda", model))(model).modified
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return given, model, modified


@pytest.mark.parametrize("text", REPLACED.values(), ids=REPLACED)
def test_both_branches_run(text: str) -> None:
    given, model, modified = rewritten(text)
    assert modified
    assert all(node.op_type != "If" for node in model.graph.all_nodes())
    assert not DecidedOnDevicePass(reads_on_host("cuda", model))(model).modified
    target = find_target("onnxruntime-cuda")
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert before.copies_per_iteration > after.copies_per_iteration == 0
    for samples in (0, 1, 4):
        x = np.array([[1, 2, -1], [-2, 1, 0], [np.nan, 1, 1], [0, -0.0, 0]], np.float32)[:samples]
        feeds = {"x": x, "n": np.array(samples, np.int64), "w": np.eye(3, dtype=np.float32)}
        expected = rewriter.run(given, feeds)["y"]
        np.testing.assert_array_equal(rewriter.run(model, feeds)["y"], expected)


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_stays_an_if(text: str) -> None:
    given, model, modified = rewritten(text)
    assert not modified
    assert ir.to_proto(model).graph == ir.to_proto(from_proto(given)).graph


def test_maps_in_loops_become_plain_loops_for_a_device() -> None:
    model = load(ROOT / "models" / "text" / "map_in_loop.onnxtxt")
    report = rewriter.rewrite(model, target="onnxruntime-cuda").report
    assert report.placement is not None
    assert (report.placement.copies, report.placement.host) == (0, ())
    (decision,) = (one for one in report.decisions if one.op_type == "SequenceMap")
    assert decision.form == "plain Loop"
    assert "a plain loop in a loop copies the least" in str(report)
    assert rewriter.rewrite(model).report.decisions[0].form != "plain Loop"


def test_a_plain_loop_in_a_loop_copies_no_more_on_webgpu_than_the_model_as_given() -> None:
    """Sequences and Loops are on the host there; what is split and asked for would add copies."""
    model = load(ROOT / "models" / "text" / "map_in_loop.onnxtxt")
    placement = rewriter.rewrite(model, target="onnxruntime-webgpu").report.placement
    given = place(from_proto(model), find_target("onnxruntime-webgpu"))
    assert placement is not None and given is not None
    assert placement.copies_per_iteration <= given.copies_per_iteration == 3
