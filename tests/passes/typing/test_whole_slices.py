"""Slices that leave nothing out, which inference is told of."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.whole_slices import takes_all
from tests.passes.typing.typed import both

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


# A Slice of a float[A,6,B], the dimensions of its result
PARTS = {
    "the last axis alone": ("y = Slice (x, s001, far_far_3)", "A 6 ?"),
    "one axis in the middle": ("y = Slice (x, s010, far_4_far)", "A 3 B"),
    "other axes first": ("y = Slice (x, s010, far_4_far, axes_2_1_0, ones)", "A 3 B"),
    "every second place": ("y = Slice (x, s010, far_4_far, axes_0_1_2, twos)", "? 2 ?"),
    "all but the first row": ("y = Slice (x, s100, far_4_far, axes_0_1_2, ones)", "? 4 B"),
    "axes that are not named": ("y = Slice (x, zero, two, two)", "A 6 ?"),
    "what is not known": ("y = Slice (x, s010, far_4_far, any)", "? ? ?"),
}


@pytest.mark.parametrize("name", PARTS)
def test_axes_that_a_slice_leaves_whole(name: str) -> None:
    text, wanted = PARTS[name]
    typings, named = both(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[A,6,B] x, int64[3] any, bool go) => (float[?,?,?] z) <int64[3] s001 = {{0, 0, 0}},
          int64[3] s010 = {{0, 1, 0}}, int64[3] s100 = {{1, 0, 0}}, int64[1] zero = {{0}},
          int64[1] two = {{2}}, int64[3] ones = {{1, 1, 1}}, int64[3] twos = {{2, 2, 2}},
          int64[3] far_far_3 = {{2147483647, 9223372036854775807, 3}},
          int64[3] far_4_far = {{2147483647, 4, 2147483647}}, int64[3] axes_0_1_2 = {{0, 1, 2}},
          int64[3] axes_2_1_0 = {{2, -2, 0}}> {{
          z = If (go) <then_branch = t () => (float[?,?,?] a) {{ {text}  a = Identity (y) }},
            else_branch = e () => (float[?,?,?] b) {{ b = Identity (x) }}> }}""")
    sizes = typings.proven.dims(named["x"])
    assert sizes is not None
    names = {str(sizes[0]): "A", "6": "6", str(sizes[2]): "B"}
    dims = typings.proven.dims(named["y"])
    assert dims is not None
    found = [str(d) if isinstance(d, int) else names.get(str(d), "?") for d in dims]
    assert " ".join(found) == wanted
