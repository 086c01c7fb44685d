"""Where a Slice along one axis begins and ends, and which Slices are left alone."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.numbers.slice_bounds import axis_cut_in_steps_of_1, bounds_of
from passes.numbers.written_numbers import describe
from passes.reading.nodes import ends_far, is_same_work
from passes.typing import type_values

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3] x, float[N,3] z, float[] w, int64[1] n, int64[K] k, int64 i) => (float[] r)
  <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1},
   int64[2] zeros = {0, 0}, int64[2] both = {2, 3}, int64[1] far = {9223372036854775807},
   int64[1] end = {2147483647}, int64[1] before = {2147483646}, int64[1] billion = {1000000000},
   int64[1] less = {999999999}>
{ %s r = Identity (x) }"""
BOUNDS: dict[str, tuple[str, tuple[str, str, int, bool, bool] | None]] = {
    # first, end, axis, whether it reaches the end, whether nothing is cut
    "rows": ("y = Slice (z, one, two)", ("1", "2", 0, False, False)),
    "rows to the last": ("y = Slice (x, one, two)", ("1", "2", 0, True, False)),
    "all rows": ("y = Slice (x, zero, far)", ("0", "9223372036854775807", 0, True, True)),
    "to the end": ("y = Slice (x, one, end)", ("1", "2147483647", 0, True, False)),
    "before the end": ("y = Slice (z, zero, before)", ("0", "2147483646", 0, False, False)),
    "behind the end": ("y = Slice (x, zero, before)", ("0", "2147483646", 0, True, True)),
    "columns": ("y = Slice (x, zero, end, minus)", ("0", "2147483647", -1, True, True)),
    "in steps of 1": ("y = Slice (x, zero, two, one, one)", ("0", "2", 1, False, False)),
    "in steps of 1, no axes": ("y = Slice (z, zero, two, , one)", ("0", "2", 0, False, False)),
    "to a number that is fed": ("y = Slice (x, zero, n)", ("0", "Scalar n", 0, False, False)),
    "from a number that is fed": (
        "y = Slice (x, n, end)",
        ("Scalar n", "2147483647", 0, True, False),
    ),
    "in steps of 2": ("y = Slice (x, zero, two, zero, two)", None),
    "backwards": ("y = Slice (x, zero, two, zero, minus)", None),
    "in steps that are fed": ("y = Slice (x, zero, two, zero, n)", None),
    "along an axis that is fed": ("y = Slice (x, zero, two, k)", None),
    "two axes, both of them whole": ("y = Slice (x, zeros, both)", ("0", "2", 0, True, True)),
    "two axes, the first of them whole": (
        "s = Concat <axis = 0> (zero, n) e = Concat <axis = 0> (two, far) y = Slice (x, s, e)",
        ("Scalar n", "9223372036854775807", 1, True, False),
    ),
    "two axes, the last of them whole": (
        "s = Concat <axis = 0> (n, zero) e = Concat <axis = 0> (two, far)"
        " a = Concat <axis = 0> (one, zero) y = Slice (x, s, e, a)",
        ("Scalar n", "2", 1, False, False),
    ),
    "two axes": ("s = Concat <axis = 0> (n, one) y = Slice (x, s, both)", None),
    "two axes, one of them backwards": (
        "s = Concat <axis = 0> (n, zero) t = Concat <axis = 0> (one, minus)"
        " y = Slice (x, s, both, zeros, t)",
        None,
    ),
    "two axes that are fed": ("y = Slice (x, zeros, both, k)", None),
    "two axes of a size that is not known": (
        "s = Concat <axis = 0> (zero, n) y = Slice (z, s, both)",
        None,
    ),
    "from any numbers": ("y = Slice (x, k, two)", None),
    "to any numbers": ("y = Slice (x, zero, k)", None),
}


def _nodes(lines: str) -> tuple[list[ir.Node], Evaluator]:
    model = ir.from_onnx_text(TEXT % lines)
    return list(model.graph)[:-1], Evaluator(type_values(model, proven=True))


@pytest.mark.quick
@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name: str) -> None:
    lines, expected = BOUNDS[name]
    (*_, node), evaluator = _nodes(lines)
    found = bounds_of(node, evaluator)
    if found is None or expected is None:
        assert found is expected
    else:
        first, end = (
            describe(n).replace("1*", "").removesuffix(" + 0") for n in (found.start, found.end)
        )
        assert (first, end, found.axis, found.reaches_end, found.is_whole) == expected


AXES = {
    "from one number": ("y = Slice (x, zero, k)", 0),
    "from one that is fed": ("y = Slice (x, n, k)", 0),
    "from any numbers": ("y = Slice (x, k, two)", None),
    "along a named axis": ("y = Slice (x, k, two, one)", 1),
    "along two": ("y = Slice (x, k, two, zeros)", None),
}


@pytest.mark.parametrize("name", AXES)
def test_axis(name: str) -> None:
    lines, expected = AXES[name]
    (node,), evaluator = _nodes(lines)
    assert axis_cut_in_steps_of_1(node, evaluator) == expected


def test_a_slice_by_attributes_is_left_alone() -> None:
    model = ir.from_onnx_text("""<ir_version: 4, opset_import: ["" : 9]>
    g (float[2,3] x) => (float[1,3] y) { y = Slice <starts = [0], ends = [1]> (x) }""")
    (node,) = model.graph
    evaluator = Evaluator(type_values(model, proven=True))
    assert bounds_of(node, evaluator) is None
    assert axis_cut_in_steps_of_1(node, evaluator) is None


FAR = {
    "as far as 10^9": ("y = Slice (z, zero, billion)", True),
    "less far": ("y = Slice (z, zero, less)", False),
    "just before the end": ("y = Slice (z, zero, before)", True),
    "to the end": ("y = Slice (z, zero, end)", False),
    "of known sizes": ("y = Slice (x, zero, billion)", False),
    "of no known rank": ("y = Slice (w, zero, billion)", True),
    "to a number that is fed": ("y = Slice (z, zero, n)", False),
    "no Slice": ("y = Neg (z)", False),
}


@pytest.mark.parametrize("name", FAR)
def test_ends_that_are_far_but_not_the_end(name: str) -> None:
    lines, expected = FAR[name]
    (node,), evaluator = _nodes(lines)
    assert ends_far(node, evaluator) is expected


SAME = {
    "alike": ("a = Softmax <axis = 0> (x) b = Softmax <axis = 0> (x)", True),
    "another attribute": ("a = Softmax <axis = 0> (x) b = Softmax <axis = 1> (x)", False),
    "another operand": ("a = Neg (x) b = Neg (z)", False),
    "another operator": ("a = Neg (x) b = Exp (x)", False),
}


@pytest.mark.parametrize("name", SAME)
def test_nodes_that_do_the_same(name: str) -> None:
    lines, expected = SAME[name]
    (one, other), _ = _nodes(lines)
    assert is_same_work(one, other) is expected


def test_nodes_with_graphs_do_not_count_as_the_same() -> None:
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[2,3] x, bool c) => (float[2,3] y) {
      y = If (c) <then_branch = a () => (float[2,3] p) { p = Neg (x) },
                  else_branch = b () => (float[2,3] q) { q = Exp (x) }> }""")
    (node,) = model.graph
    assert not is_same_work(node, node)


def test_nodes_of_two_domains_are_not_the_same() -> None:
    given = ir.Value(name="x")
    assert not is_same_work(ir.node("Neg", [given]), ir.node("Neg", [given], domain="other"))
