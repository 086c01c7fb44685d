"""Single numbers of vectors, the others of which are not known."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.numbers.entry_reads import number_at
from passes.numbers.evaluate import Evaluator
from passes.numbers.written_numbers import describe
from passes.typing import type_values

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (int64[1] n, float[1] f, int64[K] k) => (int64[K] r)
  <int64[1] two = {2}, int64[2] pair = {3, 4}, int64[1] far = {2147483648}, int64[1] wide = {7},
   int64[1] less = {-1}, int32[1] most = {2147483647}, int64[1] odd = {16777217}>
{ u = Cast <to = 7> (f) %s r = Identity (k) }"""
CASES: dict[str, tuple[str, int, str | None]] = {
    "behind one that is not known": ("y = Concat <axis = 0> (u, two)", 1, "2"),
    "not known": ("y = Concat <axis = 0> (f, f)", 0, None),
    "of the last part": ("y = Concat <axis = 0> (u, pair)", 2, "4"),
    "behind what is of any length": ("y = Concat <axis = 0> (k, two)", 1, None),
    "behind the end": ("y = Concat <axis = 0> (n, two)", 2, None),
    "a sum": ("a = Concat <axis = 0> (u, two) y = Add (a, pair)", 1, "6"),
    "a sum that is spread": ("a = Concat <axis = 0> (u, two) y = Add (a, wide)", 1, "9"),
    "cast": ("a = Concat <axis = 0> (u, two) y = Cast <to = 6> (a)", 1, "2"),
    "cast, too large": ("a = Concat <axis = 0> (u, far) y = Cast <to = 6> (a)", 1, None),
    "a product": ("a = Concat <axis = 0> (u, two) y = Mul (a, pair)", 1, "8"),
    "a product by one not known": ("a = Concat <axis = 0> (u, two) y = Mul (a, pair)", 0, None),
    "a product that is too large": (
        "a = Concat <axis = 0> (u, far) b = Mul (a, far) y = Mul (b, pair)",
        1,
        None,
    ),
    "spread to a length that is not known": ("y = Add (k, two)", 0, None),
    "as TensorFlow ends a slice": (
        "a = Concat <axis = 0> (u, less) e = Equal (less, a) c = Cast <to = 6> (e) "
        "b = Cast <to = 6> (a) m = Mul (most, c) y = Add (b, m)",
        1,
        "2147483646",
    ),
    "chosen by a flag that decides": (
        "a = Concat <axis = 0> (u, two) b = Less (a, pair) no = Less (pair, two) d = And (b, no) "
        "y = Where (d, pair, a)",
        1,
        "2",
    ),
    "fractions cut off": (
        "p = Constant <value_floats = [1.5, 2.5]> () y = Cast <to = 7> (p)",
        1,
        "2",
    ),
    "fractions in a sum": (
        "p = Constant <value_floats = [1.5, 2.5]> () c = Cast <to = 7> (p) "
        "a = Concat <axis = 0> (u, two) y = Add (a, c)",
        1,
        "4",
    ),
    "compared with fractions": (
        "p = Constant <value_floats = [1.5, 2.5]> () q = Constant <value_floats = [2.5]> () "
        "e = Less (p, q) c = Cast <to = 7> (e) a = Concat <axis = 0> (u, two) y = Add (a, c)",
        1,
        "2",
    ),
    "of a shape whose other sizes are not known": (
        "e = NonZero (k) s = Shape (e) c = Constant <value = int64[1] {0}> () "
        "y = Gather <axis = 0> (s, c)",
        0,
        "1",
    ),
    "of a shape, from its end": (
        "e = NonZero (k) s = Shape (e) c = Constant <value = int64[1] {-2}> () "
        "y = Gather <axis = 0> (s, c)",
        0,
        "1",
    ),
    "the size that is not known": (
        "e = NonZero (k) s = Shape (e) c = Constant <value = int64[1] {1}> () "
        "y = Gather <axis = 0> (s, c)",
        0,
        None,
    ),
    "behind a shape": (
        "e = NonZero (k) s = Shape (e) c = Constant <value = int64[1] {2}> () "
        "y = Gather <axis = 0> (s, c)",
        0,
        None,
    ),
    "as a float": ("a = Concat <axis = 0> (u, two) y = Cast <to = 1> (a)", 1, "2"),
    "as a float, rounded": (
        "a = Concat <axis = 0> (u, odd) b = Cast <to = 1> (a) y = Cast <to = 7> (b)",
        1,
        None,
    ),
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


@pytest.mark.parametrize(("joins", "expected"), [(31, "2"), (400, None)])
def test_what_is_joined_again_and_again_is_followed_some_of_the_way(
    joins: int, expected: str | None
) -> None:
    lines = " ".join(f"y{n + 1} = Concat <axis = 0> (y{n}, f1)" for n in range(joins))
    lines = f"f1 = Cast <to = 7> (f) y0 = Concat <axis = 0> (two, u) {lines}"
    model = ir.from_onnx_text(TEXT % lines)
    (y,) = (v for node in model.graph for v in node.outputs if v.name == f"y{joins}")
    inside = {v for node in model.graph for v in node.outputs}
    found = number_at(Evaluator(type_values(model, proven=True), inside), y, 0)
    assert (None if found is None else describe(found)) == expected
