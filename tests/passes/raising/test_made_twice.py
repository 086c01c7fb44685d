"""Values of a body that are the same as earlier ones, and those that only look so."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching import rules
from passes.carried.common.outside import made_twice
from passes.graph.scopes import Scope

assert rules  # they fill the table

pytestmark = pytest.mark.quick
TEXT = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g (float[N] x, float[N] z, float half, bool yes) => (float[N] y) {{
    a = {one}  b = {other}  y = Identity (z) }}"""
CASES = {
    "of one operand": ("Neg (x)", "Neg (x)", True),
    "of one number": ("Add (x, half)", "Add (x, half)", True),
    "of two operands": ("Neg (x)", "Neg (z)", False),
    "by other attributes": ("LeakyRelu <alpha = 0.5> (x)", "LeakyRelu (x)", False),
    "drawn anew": ("Dropout (x, half, yes)", "Dropout (x, half, yes)", False),
    "drawn anew, by an operator without a rule": (
        "RandomNormalLike (x)",
        "RandomNormalLike (x)",
        False,
    ),
    "by an operator that nothing is known of": ("own.Any (x)", "own.Any (x)", False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_twice(name: str) -> None:
    one, other, is_same = CASES[name]
    model = ir.from_onnx_text(TEXT.format(one=one, other=other))
    a, b = (node.outputs[0] for node in list(model.graph)[:2])
    assert made_twice(Scope((model.graph,))) == ({b: a} if is_same else {})
