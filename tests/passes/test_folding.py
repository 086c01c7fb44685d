"""What is computed of constants, ranks and shapes before a model runs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.folding import Folder
from passes.typing import type_values

CASES: dict[str, tuple[str, list[int] | None]] = {
    "a sum": ("y = Add (a, b)", [5, 7]),
    "a comparison of floats": ("z = Less (f, g) y = Cast <to = 7> (z)", [1]),
    "a sum of floats": ("y = Add (f, g)", None),
    "what is computed of floats": ("z = Add (f, g) y = Cast <to = 7> (z)", None),
    "a rank": ("s = Shape (x) y = Size (s)", [3]),
    "dimensions": ("y = Shape (a)", [2]),
    "a dimension that is not known": ("y = Shape (x)", None),
    "half of a dimension": ("s = Size (k) y = Div (s, a)", [40, 20]),
    "what is left of a division": ("y = Mod (b, a)", [0, 1]),
    "a division of what is less than 0": ("n = Neg (b) y = Div (n, a)", None),
    "a division by 0": ("z = Sub (a, a) y = Div (b, z)", None),
    "a division of floats": ("z = Div (f, g) y = Cast <to = 7> (z)", None),
    "part of a vector": ("y = Slice (k, a1, a4)", [1, 2, 3]),
    "a vector from its end": ("y = Slice (k, m1, a1, zero, m13)", [39, 26, 13]),
    "part of a matrix": ("t = Unsqueeze (b, zero) y = Slice (t, zero, a1)", None),
    "many numbers": ("y = Concat <axis = 0> (k, k)", None),
}


@pytest.mark.parametrize("name", CASES)
def test_value(name: str) -> None:
    nodes, expected = CASES[name]
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        m (float[N,2,4] x) => (float[] r) <int64[2] a = {{1, 2}}, int64[2] b = {{4, 5}},
          int64[1] zero = {{0}}, int64[1] a1 = {{1}},
          int64[1] a4 = {{4}}, int64[1] m1 = {{-1}}, int64[1] m13 = {{-13}}, float f = {{1}}, float g = {{2}}> {{ r = Identity (x)
          k = Constant <value_ints = {list(range(40))}> () {nodes} }}""")
    )
    value = next(out for node in model.graph for out in node.outputs if out.name == "y")
    found = Folder(type_values(model, proven=True, ranks=False)).value(value)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(np.reshape(found, -1), expected)
