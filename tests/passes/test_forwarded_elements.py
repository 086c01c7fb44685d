"""A map that yields its elements as they are becomes the sequence that it reads."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.simplify import SimplifyBodiesPass

pytestmark = pytest.mark.quick

BODY = "<body = b (float[N] e) => (float[N] o) { o = Identity (e) }>"
RESULT = f"g (seq(float[2]) xs) => (seq(float[2]) ys) {{ ys = SequenceMap (xs) {BODY} }}"
READ = f"""g (seq(float[2]) xs, int64 i) => (float[] y) <seq(float[3]) ys> {{
    ys = SequenceMap (xs) {BODY} y = SequenceAt (ys, i) }}"""


def simplified(graph: str) -> onnx.GraphProto:
    text = f'<ir_version: 9, opset_import: ["" : 18]> {graph}'
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert SimplifyBodiesPass()(model).modified
    return ir.to_proto(model).graph


def test_a_result_keeps_its_type() -> None:
    given = onnx.parser.parse_graph(RESULT)
    assert list(simplified(RESULT).output) == list(given.output)


def test_what_is_declared_of_the_elements_is_forgotten() -> None:
    """Nothing holds an element to it."""
    (known,) = (one for one in simplified(READ).value_info if one.name == "ys")
    (dim,) = known.type.sequence_type.elem_type.tensor_type.shape.dim
    assert not dim.HasField("dim_value")
