"""What is forgotten of declared types before they are proven."""

from __future__ import annotations

import onnx
import pytest

from passes.typing.declared_types import erase


@pytest.mark.parametrize(("numbers", "kept"), [(True, 3), (False, 0)])
def test_symbols_are_forgotten_and_numbers_on_request(numbers: bool, kept: int) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (seq(float[N,3]) xs, int64 i) => (float[N,3] y) { y = SequenceAt (xs, i) }""")
    erase(proto, ranks=True, numbers=numbers)
    for type_ in (proto.graph.input[0].type.sequence_type.elem_type, proto.graph.output[0].type):
        first, second = type_.tensor_type.shape.dim
        assert not first.WhichOneof("value") and second.dim_value == kept
