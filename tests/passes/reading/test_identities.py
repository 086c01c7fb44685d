"""What is one value under several names."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.graph.made import skip_identities

MADE = {
    "a copy of a copy": ("a = Identity (x)  b = Identity (a)", "x"),
    "a declared float": ("b = Cast <to = 1> (x)", "x"),
    "another type": ("b = Cast <to = 11> (x)", "b"),
    "a comparison": ("a = Greater (x, x)  b = Cast <to = 9> (a)", "a"),
    "a flag as a number": ("a = Not (f)  b = Cast <to = 7> (a)", "b"),
    "a number as a flag": ("a = Add (x, x)  b = Cast <to = 9> (a)", "b"),
    "two casts to one type": ("a = Cast <to = 7> (x)  b = Cast <to = 7> (a)", "a"),
    "there and back": ("a = Cast <to = 11> (x)  b = Cast <to = 1> (a)", "b"),
}


@pytest.mark.parametrize(("text", "name"), MADE.values(), ids=MADE)
def test_what_a_value_is(text: str, name: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> g (float[N] x, bool[N] f) => (float[N] b) {{{text}}}'
    )
    graph = ir.from_proto(model).graph
    graph.outputs[0].type = None
    assert skip_identities(graph.outputs[0]).name == name
