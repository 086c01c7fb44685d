"""Slices that leave nothing out, which inference is told of."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.whole_slices import takes_all

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,3] x, int64[1] n) => (float[?,?] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] far = {9223372036854775807},
 int64 start = {0}> { %s }"""
CASES = {
    "y = Slice (x, zero, far)": True,
    "y = Slice (x, zero, far, one)": True,
    "y = Slice (x, zero, far, one, )": True,
    "y = Slice (x, zero, far, one, one)": True,
    "y = Slice (x, zero, far, one, two)": False,
    "y = Slice (x, zero, far, one, n)": False,
    "y = Slice (x, zero, two)": False,
    "y = Slice (x, one, far)": False,
    "y = Slice (x, n, far)": False,
    "y = Slice (x, zero, n)": False,
    "s = Unsqueeze (start, zero) y = Slice (x, s, far)": True,
    "y = Pad (x, zero, far)": False,
    "y = other.Slice (x, zero, far)": False,
}


@pytest.mark.parametrize(("text", "whole"), CASES.items(), ids=CASES)
def test_whole(text: str, whole: bool) -> None:
    *_, node = ir.from_onnx_text(TEXT % text.replace(", )", ', "")')).graph
    assert takes_all(node) is whole


def test_an_old_slice_is_none() -> None:
    assert not takes_all(ir.node("Slice", [ir.Value(name="x")], {"starts": [0], "ends": [9]}))
