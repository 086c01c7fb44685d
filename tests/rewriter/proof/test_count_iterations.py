from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.backends import run
from rewriter.proof.count_iterations import ITERATIONS, with_iterations

HEADER = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]>'
LOOP = """Loop (n, "", x) <body = l (int64 i, bool k, float[N] s)
  => (bool k2, float[N] s2, float[N] o) { k2 = Identity (k) s2 = Add (s, s) o = Relu (s) }>"""
IN_A_BRANCH = f"""{HEADER} g (float[N] x, int64 n, bool c) => (float[N] y, float[M,N] z) {{
  y, z = If (c) <
    then_branch = t () => (float[N] a, float[M,N] b) {{ a, b = {LOOP} }},
    else_branch = e () => (float[N] a2, float[M,N] b2) {{
      a2 = Identity (x) axis = Constant <value_ints = [0]> () b2 = Unsqueeze (x, axis) }}>
}}"""
IN_A_FUNCTION = f"""{HEADER} g (float[N] x, int64 n, bool c) => (float[N] y, float[M,N] z) {{
  y, z = f.loop (x, n)
}}
<domain: "f", opset_import: ["" : 21]> loop (x, n) => (y, z) {{ y, z = {LOOP} }}"""
SCAN = f"""{HEADER} g (float[M,3] x) => (float[3,M] y) {{
  y = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = s (float[3] r) => (float[3] o)
    {{ o = Relu (r) }}> (x)
}}"""


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize(
    ("text", "taken", "expected"),
    [
        (IN_A_BRANCH, True, 3),
        (IN_A_BRANCH, False, 0),
        (IN_A_FUNCTION, True, 3),
    ],
    ids=["branch that is taken", "branch that is not", "function"],
)
def test_loops_at_any_place(text: str, taken: bool, expected: int, backend: str) -> None:
    counting = with_iterations(onnx.parser.parse_model(text))
    feeds = {"x": np.ones(2, np.float32), "c": np.bool_(taken)}
    for count in (0, 3):
        outputs = run(counting, {**feeds, "n": np.int64(count)}, backend=backend)
        assert outputs[ITERATIONS] == (expected if count else 0)


def test_a_scan_with_axes() -> None:
    counting = with_iterations(onnx.parser.parse_model(SCAN))
    assert run(counting, {"x": np.ones((4, 3), np.float32)})[ITERATIONS] == 4
