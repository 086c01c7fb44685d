"""What a node of a Loop's body passes on unchanged."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.reading.nodes import passed_on
from passes.typing import Typing, type_values

CASES = {
    "Identity": ("y = Identity (x)", True),
    "another operator": ("y = Neg (x)", False),
    "all of the first axis": ("y = Slice (x, zero, two)", True),
    "all of it, by numbers that are too large": ("y = Slice (x, zero, many)", True),
    "all of a later axis": ("y = Slice (x, zero, three, one)", True),
    "all of two axes": ("y = Slice (x, zeros, both)", True),
    "all of it, by steps": ("y = Slice (x, zero, two, zero, one)", True),
    "every second row": ("y = Slice (x, zero, two, zero, two)", False),
    "not the first row": ("y = Slice (x, one, two)", False),
    "not the last row": ("y = Slice (x, zero, one)", False),
    "not the last of a later axis": ("y = Slice (x, zero, two, one)", False),
    "not the last of the second axis": ("y = Slice (x, zeros, twos)", False),
    "up to a number that is not known": ("y = Slice (x, zero, n)", False),
    "from a number that is not known": ("y = Slice (x, n, two)", False),
    "an axis of no known size": ("y = Slice (z, zero, many)", False),
    "the known axis of two": ("y = Slice (z, zero, three, one)", True),
    "a tensor of no known rank": ("y = Slice (w, zero, many)", False),
}


@pytest.mark.parametrize("name", CASES)
def test_passed_on(name: str) -> None:
    node, is_passed_on = CASES[name]
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x, float[N,3] z, float[] w, int64[1] n) => (float[] y)
          <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
           int64[1] many = {{9}}, int64[2] zeros = {{0, 0}}, int64[2] both = {{2, 3}},
           int64[2] twos = {{2, 2}}> {{ {node} }}""")
    )
    node = model.graph.node(0)
    found = passed_on(node, Evaluator(type_values(model, proven=True)))
    assert found is (node.inputs[0] if is_passed_on else None)


def test_an_operator_of_another_domain_passes_nothing_on() -> None:
    node = ir.node("Identity", [ir.Value(name="x")], domain="other")
    assert passed_on(node, Evaluator(Typing())) is None
