"""Sizes of what is made of numbers: a Range, a fill, an expanded number; and of what is moved."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.typing import type_values

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[?,?] x, int64[1] n, float f, float[2] wide) => (int64[] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 one0 = {1}, int64 two0 = {2}>
{ s = Shape (x) rows = Gather (s, zero) columns = Gather (s, one) z = Squeeze (zero) r = Squeeze (rows)
  both = Concat <axis = 0> (columns, rows) %s h = Shape (t) y = Gather (h, %s) }"""
CASES = {
    "a Range": ("t = Range (z, r, one0)", "zero", "rows"),
    "a Range from 1": ("t = Range (one0, r, one0)", "zero", None),
    "a Range of every second": ("t = Range (z, r, two0)", "zero", None),
    "a Range of floats": (
        "a = Constant <value_float = 0.0> () e = Cast <to = 1> (r)"
        " b = Constant <value_float = 1.0> () t = Range (a, e, b)",
        "zero",
        None,
    ),
    "a fill": ("t = ConstantOfShape (both)", "one", "rows"),
    "an expanded number": ("t = Expand (f, both)", "zero", "columns"),
    "a number expanded to any number of rows": (
        "sum = Add (rows, columns) same = Sub (sum, rows) to = Concat <axis = 0> (n, same)"
        " t = Expand (f, to)",
        "one",
        "columns",
    ),
    "a row expanded to any number of rows": (
        "sum = Add (rows, columns) same = Sub (sum, rows) to = Concat <axis = 0> (n, same)"
        " t = Expand (wide, to)",
        "one",
        None,
    ),
    "an expanded vector": ("t = Expand (wide, both)", "one", None),
    "a repeated number": ("t = Tile (two, rows)", "zero", "rows"),
    "a repeated row": ("one2 = Unsqueeze (wide, zero) t = Tile (one2, both)", "zero", "columns"),
    "repeated numbers": ("t = Tile (wide, rows)", "zero", None),
    "what is turned": ("t = Transpose <perm = [1, 0]> (x)", "one", "rows"),
    "what is turned over": ("t = Transpose (x)", "zero", "columns"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_size(name: str) -> None:
    lines, axis, expected = CASES[name]
    model = ir.from_onnx_text(TEXT % (lines, axis))
    values = {v.name: v for node in model.graph for v in node.outputs}
    evaluator = Evaluator(type_values(model, proven=True))
    size = evaluator.number(values["y"])
    sizes = {name: evaluator.number(values[name]) for name in ("rows", "columns")}
    assert [name for name, known in sizes.items() if known == size] == [expected] * bool(expected)
