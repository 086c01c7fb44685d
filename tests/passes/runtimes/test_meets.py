"""Which nodes meet a defect."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest

from passes.runtimes import empties, integers, rearranged, reshapes
from passes.runtimes.types import Types

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,3] x, string[A,B] t, string[] u, float[2,3] f, float[] a, int64[K] k) => (float[] y)
<int64[1] all = {-1}, int64[1] back = {-1}, int64[1] zero = {0}> { %s }"""
Meets = Callable[[ir.Node, Types], bool]
PLACES = "i = NonZero (x) j = Reshape (i, all) "
CASES: list[tuple[Meets, str, bool]] = [
    (reshapes.is_by_a_reshape, "s = Reshape (k, all) y = Reshape (x, s)", True),
    (reshapes.is_by_a_reshape, "r = Reshape (k, all) s = Identity (r) y = Reshape (x, s)", True),
    (reshapes.is_by_a_reshape, "r = Reshape (k, all) s = Neg (r) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "s = Unsqueeze (k, zero) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "s = Identity (k) y = Reshape (x, s)", False),
    (reshapes.is_by_a_reshape, "y = Reshape (x, k)", False),
    (reshapes.is_by_a_reshape, "y = Squeeze (x)", False),
    (rearranged.reads_rows_of_text, "y = Gather (t, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = -2> (t, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 1> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 2> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather <axis = -3> (t, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather (u, k)", True),
    (rearranged.reads_rows_of_text, "y = Gather <axis = 1> (u, k)", False),
    (rearranged.reads_rows_of_text, "y = Gather (x, k)", False),
    (empties.has_negative_axes, "y = ReduceSum (x, back)", True),
    (empties.has_negative_axes, "y = ReduceSum (f, back)", False),
    (empties.has_negative_axes, "y = ReduceSum (x, zero)", False),
    (empties.has_negative_axes, "y = ReduceSum (x)", False),
    (integers.divides_nothing, PLACES + "y = Div (j, k)", True),
    (integers.divides_nothing, PLACES + "s = Shape (j) e = Expand (k, s) y = Div (j, e)", False),
    (integers.divides_nothing, PLACES + "s = Shape (k) e = Expand (k, s) y = Div (j, e)", True),
]


@pytest.mark.parametrize(("meets", "text", "is_met"), CASES, ids=[text for _, text, _ in CASES])
def test_what_meets_a_defect(meets: Meets, text: str, is_met: bool) -> None:
    model = ir.from_onnx_text(TEXT % text)
    *_, node = model.graph
    assert meets(node, Types(model)) is is_met
