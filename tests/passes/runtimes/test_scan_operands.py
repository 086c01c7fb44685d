"""Slices of a Scan that OpenVINO would overwrite."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter import optimize
from rewriter.backends import run
from tests.passes.loops import model

TEXT = """g (float[N,4] x, float[N,4] w) => (float[M,4] y) {{
    z = Constant <value = float[4] {{0.5, 1, -1, 2}}> ()
    f, y = Scan <num_scan_inputs = 2, body = b (float[4] s, float[4] e, float[4] v)
        => (float[4] n, float[4] o) {{
        h = Tanh (e)  m = {join}  g = Softsign (m)  n = Add (g, h)  p = Exp (n)  o = Sigmoid (p)
    }}> (z, x, w)
}}"""
JOINED = ["Mul (v, s)", "Mul (s, v)", "Add (v, s)", "Max (v, s)", "Min (e, s)", "Sub (v, s)"]


def operands(made: onnx.ModelProto, op_type: str) -> tuple[list[str], list[str]]:
    """Return what the node of a Scan reads, and the slices."""
    (scan,) = (node for node in made.graph.node if node.op_type == "Scan")
    (body,) = (a.g for a in scan.attribute if a.name == "body")
    (node,) = (node for node in body.node if node.op_type == op_type and "n" not in node.output)
    return list(node.input), [value.name for value in body.input[1:]]


@pytest.mark.parametrize("join", JOINED)
def test_a_recurrence_that_is_split_is_right_on_openvino(join: str) -> None:
    before = model(TEXT.format(join=join), 18)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((5, 4)).astype(np.float32) for name in "xw"}
    made = optimize(before, target="openvino")
    found = run(made, feeds, backend="openvino")["y"]
    np.testing.assert_allclose(run(before, feeds)["y"], found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("target", "turns"), [("openvino", True), ("onnxruntime", False)])
def test_operands_change_places_for_openvino_alone(target: str, turns: bool) -> None:
    made = optimize(model(TEXT.format(join="Mul (v, s)"), 18), target=target)
    (first, second), slices = operands(made, "Mul")
    assert (second in slices, first in slices) == (turns, not turns)
