"""Which nodes may run although the model would not run them."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching import rules
from passes.batching.anywhere import runs_anywhere
from passes.typing import type_values

assert rules

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,4] x, float[L,5] w, float[4,5] c, float[M,4] z, float[?] v) => (int64[k] y)
<int64[1] all = {-1}, int64[3] row = {1,-1,1}, int64[2] four = {-1,4}, int64[2] same = {0,-1},
 int64[2] places = {-4,3}, int64[1] behind = {4}, int64[1] one = {1}, int64[1] first = {0}>
{ %s y = Shape (r) }"""
CASES = {
    "r = Reshape (x, all)": True,
    "r = Reshape (x, row)": True,
    "r = Reshape (x, four)": False,
    "r = Reshape (x, same)": False,
    "u = Neg (x) r = Concat <axis = 1> (x, u)": True,
    "u = Neg (x) r = Concat <axis = -1> (x, u)": True,
    "r = Concat <axis = 0> (x, z)": True,
    "r = Concat <axis = 0> (x, w)": False,
    "r = Concat <axis = 1> (x, z)": False,
    "r = Concat <axis = 1> (x, w)": False,
    "r = Concat <axis = 0> (v, v)": True,
    "r = MatMul (x, c)": True,
    "r = MatMul (w, c)": False,
    "r = MatMul (x, v)": False,
    "r = Gather <axis = 1> (x, places)": True,
    "r = Gather <axis = 1> (x, behind)": False,
    "r = Gather <axis = 0> (x, first)": False,
    "u = Unsqueeze (x, one) r = Squeeze (u, one)": True,
    "r = Squeeze (x, first)": False,
    "r = Add (x, x)": True,
    "r = Add (x, z)": False,
    "r = Neg (v)": True,
}


@pytest.mark.parametrize(("text", "safe"), CASES.items(), ids=CASES)
def test_a_node_runs_whatever_the_dimensions_are(text: str, safe: bool) -> None:
    model = ir.from_onnx_text(TEXT % text)
    *_, node, _ = model.graph
    assert runs_anywhere(node, type_values(model, proven=True), 18) is safe
