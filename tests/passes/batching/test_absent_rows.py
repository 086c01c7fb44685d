"""Which nodes have no result where there is nothing to read, and come to read zeros there."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching.absent_rows import reads_one_place, reduced_along
from passes.typing import type_values

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 10, opset_import: ["" : %d]>
g (float[N,3] x, float[0,3] nothing, float[] any, float16[N,3] half, string[N] words, float number,
   int64 i, int64[1] i1, int64[2] i2, int64[K] some, int64[] place, bool[N,3] flags)
  => (float[] y)
<int64[1] last = {-1}, int64[2] both = {0, -1}, int64[0] none = {}> { %s }"""
READS: dict[str, bool] = {
    "y = Gather (x, i)": True,
    "y = Gather (x, i1)": True,
    "y = Gather <axis = 1> (x, i)": True,
    "y = Gather <axis = -1> (x, i)": True,
    "y = Gather <axis = -2> (x, i)": True,
    "y = Gather (flags, i)": True,
    "y = Gather (x, i2)": False,
    "y = Gather (x, some)": False,
    "y = Gather (x, place)": False,
    "y = Gather (nothing, i)": False,
    "y = Gather <axis = 1> (nothing, i)": True,
    "y = Gather (any, i)": False,
    "y = Gather <axis = 2> (x, i)": False,
    "y = Gather <axis = -3> (x, i)": False,
    "y = Gather (half, i)": False,
    "y = Gather (words, i)": False,
    "y = Gather (number, i)": False,
    "y = GatherElements (some, i1)": False,
}
REDUCED: dict[str, list[int] | None] = {
    "y = ReduceMax (x)": [0, 1],
    "y = ReduceMin (x, last)": [1],
    "y = ReduceMax (x, both)": [0, 1],
    "y = ReduceMax (x, some)": None,
    "y = ReduceMax (any)": None,
    "y = ReduceMax (half)": None,
    "y = ReduceMax <noop_with_empty_axes = 1> (x)": [],
    "y = ReduceMax <noop_with_empty_axes = 1> (x, last)": [1],
    "y = ReduceMax (number)": [],
    "y = ArgMax (x)": [0],
    "y = ArgMin <axis = -1> (x)": [1],
    "y = ArgMax (any)": None,
    "y = Neg (x)": None,
}
OLD = {
    "y = ReduceMax <axes = [1]> (x)": [1],
    "y = ReduceMax <axes = [-2]> (x)": [0],
    "y = ReduceMin (x)": [0, 1],
}


def _last(text: str, opset: int) -> tuple[ir.Node, ir.Model]:
    model = ir.from_onnx_text(TEXT % (opset, text))
    return model.graph[-1], model


@pytest.mark.parametrize(("text", "reads"), READS.items(), ids=READS)
def test_one_place_of_a_tensor(text: str, reads: bool) -> None:
    node, model = _last(text, 18)
    assert reads_one_place(node, type_values(model, proven=True)) is reads


@pytest.mark.parametrize(
    ("text", "axes", "opset"),
    [
        *((text, axes, 18) for text, axes in REDUCED.items()),
        *((text, axes, 13) for text, axes in OLD.items()),
    ],
)
def test_reductions_that_need_a_number(text: str, axes: list[int] | None, opset: int) -> None:
    node, model = _last(text, opset)
    assert reduced_along(node, type_values(model, proven=True)) == axes
