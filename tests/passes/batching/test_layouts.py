"""What is known of a value of a body."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching.layouts import Batched, Layout
from passes.decisions import Code, Decline
from passes.typing import ValueType

VALUE = ir.Value(name="x")
FLOATS = ValueType(ir.TensorType(ir.DataType.FLOAT), (2, None))


def test_what_is_known() -> None:
    x = Batched(Layout.STACKED, VALUE, FLOATS)
    assert (x.element_type, x.dims, x.rank) == (ir.DataType.FLOAT, (2, None), 2)


@pytest.mark.parametrize(
    ("asked", "code", "detail"),
    [
        ("element_type", Code.NO_RULE, "nothing tells the element type of 'x'"),
        ("dims", Code.UNKNOWN_RANK, "nothing tells the rank of 'x'"),
        ("rank", Code.UNKNOWN_RANK, "nothing tells the rank of 'x'"),
    ],
)
def test_what_nothing_tells_is_declined(asked: str, code: Code, detail: str) -> None:
    x = Batched(Layout.STACKED, VALUE, ValueType(None, None))
    with pytest.raises(Decline) as raised:
        getattr(x, asked)
    assert (raised.value.code, raised.value.detail) == (code, detail)
