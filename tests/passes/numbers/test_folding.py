"""What is computed of constants, ranks and shapes before a model runs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.numbers.folding import Folder
from passes.typing import type_values

pytestmark = pytest.mark.quick

CASES: dict[str, tuple[str, list[int] | None]] = {
    "a sum": ("y = Add (a, b)", [5, 7]),
    "a comparison of floats": ("z = Less (f, g) y = Cast <to = 7> (z)", [1]),
    "a sum of floats": ("y = Add (f, g)", None),
    "a comparison of halves": ("z = Less (h, f) y = Cast <to = 7> (z)", [1]),
    "what is cut off": ("y = Cast <to = 7> (h)", [0]),
    "a sum that is too large": ("y = Add (i, i)", None),
    "what is computed of floats": ("z = Add (f, g) y = Cast <to = 7> (z)", [3]),
    "a rank": ("s = Shape (x) y = Size (s)", [3]),
    "dimensions": ("y = Shape (a)", [2]),
    "a dimension that is not known": ("y = Shape (x)", None),
    "half of a dimension": ("s = Size (k) y = Div (s, a)", [40, 20]),
    "what is left of a division": ("y = Mod (b, a)", [0, 1]),
    "a division of what is less than 0": ("q = Neg (b) y = Div (q, a)", None),
    "a division by 0": ("z = Sub (a, a) y = Div (b, z)", None),
    "a division of floats": ("z = Div (f, g) y = Cast <to = 7> (z)", None),
    "part of a vector": ("y = Slice (k, a1, a4)", [1, 2, 3]),
    "a vector from its end": ("y = Slice (k, m1, a1, zero, m13)", [39, 26, 13]),
    "part of a matrix": ("t = Unsqueeze (b, zero) y = Slice (t, zero, a1)", [4, 5]),
    "a number": ("y = Gather (b, one)", [5]),
    "the last number": ("y = Gather (b, last)", [5]),
    "the first number, from behind": ("y = Gather (b, first)", [4]),
    "a number behind the end": ("y = Gather (b, two)", None),
    "a number before the beginning": ("y = Gather (b, before)", None),
    "a number at a place that is fed": ("y = Gather (b, n)", None),
    "a column": ("y = Gather <axis = 1> (square, last)", [2, 4]),
    "a column behind the end": ("y = Gather <axis = 1> (square, two)", None),
    "a dimension": ("s = Shape (x) y = Gather (s, one)", [2]),
    "the last dimension": ("s = Shape (x) y = Gather (s, last)", [4]),
    "an open dimension": ("s = Shape (x) y = Gather (s, zero)", None),
    "an open dimension, from behind": ("s = Shape (x) y = Gather (s, before)", None),
    "a dimension behind the end": ("s = Shape <start = 1> (x) y = Gather (s, two)", None),
    "a dimension before the first": ("s = Shape <start = 1> (x) y = Gather (s, before)", None),
    "the first dimension of a part": ("s = Shape <start = 1> (x) y = Gather (s, first)", [2]),
    "the last dimension of a part": ("s = Shape <end = 2> (x) y = Gather (s, one)", [2]),
    "two dimensions": ("s = Shape (x) y = Gather (s, both)", [2, 4]),
    "a dimension that is fed": ("s = Shape (x) y = Gather (s, n)", None),
    "a dimension of anything": ("s = Shape (w) y = Gather (s, one)", None),
    "a number of no shape": ("s = Neg (n) y = Gather (s, zero)", None),
    "the rank of anything": ("s = Shape (w) y = Size (s)", None),
    "a size": ("y = Size (a)", [2]),
    "a size that is not known": ("y = Size (x)", None),
    "an axis more": ("y = Unsqueeze (a, zero)", [1, 2]),
    "an axis less": ("y = Squeeze (row, zero)", [1, 2]),
    "any axes less": ("y = Squeeze (row)", [1, 2]),
    "an axis less of several": ("y = Squeeze (a, zero)", None),
    "an axis less that is fed": ("y = Squeeze (row, n)", None),
    "a sum with what is fed": ("y = Add (a, n)", None),
    "a type": ("y = CastLike (a, b)", [1, 2]),
    "a type of floats": ("y = CastLike (a, f)", None),
    "places of what is not 0": ("y = NonZero (b)", None),
    "64 numbers": ("p = Concat <axis = 0> (k, k) y = Gather (p, one)", None),
    "many numbers": ("y = Concat <axis = 0> (k, k)", None),
}


@pytest.mark.parametrize("name", CASES)
def test_value(name: str) -> None:
    nodes, expected = CASES[name]
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        m (float[N,2,4] x, float[] w, int64[1] n) => (float[] r)
          <int64[2] a = {{1, 2}}, int64[2] b = {{4, 5}}, int64[1] zero = {{0}}, int64[1] one = {{1}},
          int64[1] two = {{2}}, int64[1] last = {{-1}}, int64[1] first = {{-2}},
          int64[1] before = {{-3}}, int64[2] both = {{1, 2}}, int64[1,2] row = {{1, 2}},
          int64[2,2] square = {{1, 2, 3, 4}}, int64[1] a1 = {{1}}, int64[1] a4 = {{4}},
          int64[1] m1 = {{-1}}, int64[1] m13 = {{-13}},
          float f = {{1}}, float g = {{2}}, float h = {{0.5}}, int32 i = {{2000000000}}> {{ r = Identity (x)
          k = Constant <value_ints = {list(range(40))}> () {nodes} }}""")
    )
    value = next(out for node in model.graph for out in node.outputs if out.name == "y")
    found = Folder(type_values(model, proven=True, ranks=False)).value(value)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(np.reshape(found, -1), expected)
