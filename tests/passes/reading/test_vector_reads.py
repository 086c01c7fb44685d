"""Single numbers of vectors, the others of which are not known."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.reading.evaluate import Evaluator
from passes.reading.vector_reads import number_at
from passes.reading.written_numbers import describe
from passes.typing import type_values

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (int64[1] n, float[1] f, int64[K] k) => (int64[K] r)
  <int64[1] two = {2}, int64[2] pair = {3, 4}, int64[1] far = {2147483648}, int64[1] wide = {7}>
{ u = Cast <to = 7> (f) %s r = Identity (k) }"""
CASES: dict[str, tuple[str, int, str | None]] = {
    "behind one that is not known": ("y = Concat <axis = 0> (u, two)", 1, "2"),
    "not known": ("y = Concat <axis = 0> (f, f)", 0, None),
    "of the last part": ("y = Concat <axis = 0> (u, pair)", 2, "4"),
    "behind what is of any length": ("y = Concat <axis = 0> (k, two)", 1, None),
    "behind the end": ("y = Concat <axis = 0> (n, two)", 2, None),
    "a sum": ("a = Concat <axis = 0> (u, two) y = Add (a, pair)", 1, "6"),
    "a sum that is spread": ("a = Concat <axis = 0> (u, two) y = Add (a, wide)", 1, None),
    "cast": ("a = Concat <axis = 0> (u, two) y = Cast <to = 6> (a)", 1, "2"),
    "cast, too large": ("a = Concat <axis = 0> (u, far) y = Cast <to = 6> (a)", 1, None),
    "a product": ("a = Concat <axis = 0> (u, two) y = Mul (a, pair)", 1, None),
}


@pytest.mark.parametrize("name", CASES)
def test_number_at(name: str) -> None:
    lines, place, expected = CASES[name]
    model = ir.from_onnx_text(TEXT % lines)
    (y,) = (v for node in model.graph for v in node.outputs if v.name == "y")
    evaluator = Evaluator(
        type_values(model, proven=True), {v for n in model.graph for v in n.outputs}
    )
    found = number_at(evaluator, y, place)
    assert (None if found is None else describe(found)) == expected
