"""Places of a ScatterND that are known to be in the tensor, and those that come close."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.batching.known_places import writes_known_places
from passes.typing import type_values

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[3,2] x, float[K,2] any, float u, float[1] u1, float[2] u2, float[2,2] u22, float[1,2] u12,
   float[3] u3, float[4,2] u42, float[N] un, int64 k, int64[1] k1) => (float[3,2] z)
<int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 three = {{3}}, int64 minus = {{-1}},
 int64 many = {{1024}}, int64 more = {{1025}}, int64[1] zero1 = {{0}}, int64[1] two1 = {{2}},
 int64[1] three1 = {{3}}, int64[1] minus3 = {{-3}}, int64[1] minus4 = {{-4}}, int64[1] one1 = {{1}},
 int64[2] cell = {{2, 1}}, int64[2] beyond = {{1, 2}}, int64[2,1] rows = {{0, 2}},
 int64[2,1] far = {{0, 3}}, int64[2,1] down = {{2, -3}}, int64[3,1] column = {{0, 1, 2}},
 int64[3,1] ones = {{1, 1, 1}}, int64[3] line = {{0, 1, 2}}, int64[3,1] twos = {{2, 2, 2}},
 int64[3,3] deep = {{0, 0, 0, 1, 1, 0, 2, 1, 0}}, int64[0] none = {{}}>
{{ {lines} z = ScatterND ({operands}) }}"""
COUNTED = "r = Range ({}) p = Unsqueeze (r, one1)"
PAIRS = "{} p = Concat <axis = {}> ({})"
CASES: dict[str, tuple[str, str, bool]] = {
    "a row": ("", "x, two1, u2", True),
    "a row behind the end": ("", "x, three1, u2", False),
    "a row from the end": ("", "x, minus3, u2", True),
    "a row in front of the beginning": ("", "x, minus4, u2", False),
    "rows": ("", "x, rows, u22", True),
    "rows, one behind the end": ("", "x, far, u22", False),
    "rows, one from the end": ("", "x, down, u22", True),
    "a row of another size": ("", "x, two1, u3", False),
    "a row with an axis more": ("", "x, two1, u12", False),
    "a row of a tensor of any size": ("", "any, two1, u2", False),
    "of any number of updates": ("", "x, column, un", False),
    "an element": ("", "x, cell, u", True),
    "an element beyond its row": ("", "x, beyond, u", False),
    "an element, as a vector": ("", "x, cell, u1", False),
    "elements, deeper than the tensor": ("", "x, deep, u3", False),
    "no place": ("", "x, zero, u", False),
    "the whole": ("", "x, none, x", True),
    "rows that are counted": (COUNTED.format("zero, three, one"), "x, p, x", True),
    "rows that are counted down": (COUNTED.format("two, minus, minus"), "x, p, x", True),
    "rows that are counted too far": (COUNTED.format("one, many, one"), "any, p, any", False),
    "rows that are counted from 1": (
        COUNTED.format("one, three, one"),
        "x, p, u22",
        True,
    ),
    "rows that are counted from 2": (COUNTED.format("two, more, one"), "x, p, any", False),
    "rows that are counted by nothing": (COUNTED.format("zero, three, zero"), "x, p, x", False),
    "rows that are counted to what is fed": (COUNTED.format("zero, k, one"), "x, p, x", False),
    "a row that is fed": ("", "x, k1, u2", False),
    "elements": (PAIRS.format("", 1, "column, ones"), "x, p, u3", True),
    "elements along a negative axis": (PAIRS.format("", -1, "column, ones"), "x, p, u3", True),
    "elements that lie beyond their rows": (
        PAIRS.format("", 1, "ones, column"),
        "x, p, u3",
        False,
    ),
    "elements in the last row, beyond it": (PAIRS.format("", 1, "ones, twos"), "x, p, u3", False),
    "elements of the rows that are counted": (
        PAIRS.format("r = Range (zero, three, one) c = Unsqueeze (r, one1)", 1, "c, ones"),
        "x, p, u3",
        True,
    ),
    "elements of a column that is fed": (
        PAIRS.format("shape = Shape (ones) c = Expand (k, shape)", 1, "column, c"),
        "x, p, u3",
        False,
    ),
    "rows of two parts": (PAIRS.format("", 0, "rows, rows"), "x, p, u42", True),
    "rows of two parts, from the end": (PAIRS.format("", -2, "rows, rows"), "x, p, u42", True),
    "rows of two parts, one behind the end": (
        PAIRS.format("", 0, "rows, far"),
        "x, p, u42",
        False,
    ),
    "rows of two parts, one is fed": (
        "q = Concat <axis = 0> (one1, k1) p = Unsqueeze (q, one1)",
        "x, p, u22",
        False,
    ),
    "rows that are moved": ("p = Identity (rows)", "x, p, u22", True),
    "rows that are computed with": ("p = Add (rows, rows)", "x, p, u22", False),
}


@pytest.mark.parametrize("name", CASES)
def test_places(name: str) -> None:
    lines, operands, expected = CASES[name]
    model = ir.from_onnx_text(TEXT.format(lines=lines, operands=operands))
    (node,) = (node for node in model.graph if node.op_type == "ScatterND")
    assert writes_known_places(node, type_values(model)) is expected


@pytest.mark.parametrize(("end", "expected"), [("many", True), ("more", False)])
def test_as_many_places_as_are_read(end: str, *, expected: bool) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[2000] x, float[M] u) => (float[2000] z)
    <int64 zero = {0}, int64 one = {1}, int64[1] one1 = {1}, int64 many = {1024},
     int64 more = {1025}>
    { r = Range (zero, END, one) p = Unsqueeze (r, one1) v = Cast <to = 1> (r)
      z = ScatterND (x, p, v) }""".replace("END", end)
    model = ir.from_onnx_text(text)
    node = model.graph[-1]
    assert writes_known_places(node, type_values(model)) is expected
