"""How much work the heavy operators of a body are."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.fusing.heavy_work import work_of
from passes.fusing.measured_costs import FLOPS
from passes.typing import type_values

CASES = {
    "a product": ("y = MatMul (x, w)", 2 * 2 * 4 * 3),
    "a convolution": ("y = Conv (i, f)", 2 * (5 * 3 * 3) * (2 * 3 * 3)),
    "something light": ("y = Neg (x)", 0),
    "a product of an open number of rows": ("y = MatMul (u, w)", 2 * 1 * 4 * 3),
    "two": ("z = MatMul (x, w) y = MatMul (z, v)", 2 * 2 * 4 * 3 + 2 * 2 * 1 * 4),
}


@pytest.mark.parametrize("name", CASES)
def test_work(name: str) -> None:
    nodes, expected = CASES[name]
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x, float[3,4] w, float[4,1] v, float[N,3] u, float[1,2,5,5] i,
           float[5,2,3,3] f) => (float[] y) {{ {nodes} }}""")
    )
    assert work_of(model.graph, type_values(model, proven=True)) * FLOPS == pytest.approx(expected)
