"""Small tensors of integers that are followed, and those that come close and are not."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import Numbers
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.written_numbers import describe
from passes.typing import type_values
from rewriter.evaluator.reference import ReferenceEvaluator

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,4] x, float[] w, int64[K] v, int64 k, int64 l, int64[3] three, int64[2,2] four, bool b,
   bool[2] bs, float f, int64[A,B] open, seq(float[]) q) => (int64 z)
<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 minus = {-1}, int64 minus2 = {-2},
 int64 five = {5}, int64 great = {16777217}, int64[1] zero1 = {0}, int64[1] one1 = {1},
 int64[1] two1 = {2}, int64[1] minus1 = {-1}, int64[1] minus5 = {-5}, int64[1] far = {9223372036854775807},
 int64[2] both = {0, 1}, int64[2] ones = {1, 1}, int64[3] even = {2, 5, 8}, int64[3] uneven = {2, 5, 9},
 int64[2,2] square = {1, 2, 3, 4}, int64[2,1] column = {1, 2}, int64[1,2] row = {5, 6},
 int64[2,3] wide = {1, 2, 3, 4, 5, 6}, int64[1,1,2] deep = {7, 8}, int64[0] none = {},
 float[2] halves = {0.5, 1}, float[1] endless = {inf}, float[1] whole = {3},
 bool yes = {1}, bool no = {0}, bool[2] flags = {1, 0}, uint8 small = {3}>
{ %s z = Identity (k) }"""
CONSTANTS = {
    "parts of a vector": "y, part, more = Split <num_outputs = 3> (even)",
    "a row turned": "y = Transpose (wide)",
    "a vector and a number": "y = Sub (even, one)",
    "a number and a vector": "y = Mul (two, even)",
    "three and one": "y = Add (even, one1)",
    "no numbers": "y = Identity (none)",
    "truths": "y = Cast <to = 9> (both)",
    "a truth below 0": "y = Cast <to = 9> (minus)",
    "cast like floats": "y = CastLike (even, halves)",
    "cast like integers": "y = CastLike (halves, one)",
    "cast to 32 bits": "y = Cast <to = 6> (even)",
    "halves compared": "y = Less (halves, halves)",
    "the opposite": "y = Neg (even)",
    "without a sign": "y = Abs (minus)",
    "what is left of a division": "y = Mod (five, two)",
    "one of two flags": "lt = Less (even, five)  gt = Less (five, even)  y = Xor (lt, gt)",
    "the size of a row": "a = Unsqueeze (even, zero1)  y = Size (a)",
    "not rounded by a double": "a = Cast <to = 11> (great)  y = Cast <to = 7> (a)",
    "divided": "y = Div (five, two)",
    "divided by its opposite": "y = Div (five, minus)",
    "nothing divided": "y = Div (zero, two)",
    "several divided": "y = Div (even, two)",
    "the least of a vector": "y = ReduceMin (even)",
    "the greatest of a vector": "y = ReduceMax <keepdims = 0> (even)",
    "vectors joined": "y = Concat <axis = 0> (even, none, one1)",
    "rows joined": "y = Concat <axis = 0> (square, row)",
    "rows joined by a negative axis": "y = Concat <axis = -2> (square, row)",
    "compared": "y = Less (even, five)",
    "compared, equal": "y = LessOrEqual (five, five)",
    "compared by the greater": "y = GreaterOrEqual (even, five)",
    "equal": "y = Equal (even, five)",
    "and": "y = And (yes, no)",
    "and, both": "y = And (yes, yes)",
    "or": "y = Or (yes, no)",
    "or, neither": "y = Or (no, no)",
    "and of several": "y = And (flags, yes)",
    "or of several": "n = Not (flags) y = Or (no, n)",
    "not of several": "y = Not (flags)",
    "one of two": "y = Where (no, both, ones)",
    "picked rows": "y = Gather (wide, both)",
    "picked rows, in another order": "y = Gather (wide, minus1)",
    "picked columns": "y = Gather <axis = 1> (wide, both)",
    "a picked column": "y = Gather <axis = -1> (wide, minus)",
    "places that are not 0": "y = NonZero (even)",
    "places of truths": "y = NonZero (flags)",
    "single numbers of any rank": "r = Unsqueeze (one1, zero1) y = Less (r, two)",
    "truths of any rank": "r = Unsqueeze (one1, zero1) a = Less (r, two) y = And (a, yes)",
    "one of each": "y = Where (flags, both, ones)",
    "one of each, a number": "y = Where (flags, five, both)",
    "one of each of none": "lt = Less (none, none) y = Where (lt, none, five)",
    "filled": "s = Constant <value = int64[1] {3}> () y = ConstantOfShape <value = int64[1] {7}> (s)",
    "filled with floats": "y = ConstantOfShape (two1)",
    "filled, 64": "s = Constant <value = int64[1] {64}> () y = ConstantOfShape (s)",
    "filled with none": "y = ConstantOfShape (zero1)",
    "picked": "y = Gather (even, both)",
    "picked from the end": "y = Gather (even, minus1)",
    "picked by a matrix": "y = Gather (even, column)",
    "cut": "y = Slice (even, one1, far)",
    "cut backwards": "y = Slice (even, far, zero1, zero1, minus1)",
    "cut to nothing": "y = Slice (even, one1, one1)",
    "cut by two": "y = Slice (even, zero1, far, zero1, two1)",
    "cut from the end": "y = Slice (even, minus1, far)",
    "cut from before the beginning": "y = Slice (even, minus5, two1)",
    "rows cut by a negative axis": "a = Constant <value = int64[1] {-2}> () y = Slice (wide, one1, far, a)",
    "whole floats": "y = Identity (whole)",
    "whole floats rounded": "y = Floor (whole)",
    "a byte": "y = Identity (small)",
    "made a matrix": "s = Constant <value = int64[2] {3, 1}> () y = Reshape (even, s)",
    "made flat": "y = Reshape (square, minus1)",
    "one number, as often as a computed shape says": "s = Max (two1, one1) y = Expand (five, s)",
    "numbers, as many as a computed shape says": """t = Constant <value = int64[1] {3}> ()
        s = Max (t, one1) y = Expand (even, s)""",
}
"""What is followed is what the nodes compute."""

OTHERS = {
    "a matrix as it is": (
        "y = Transpose <perm = [0, 1]> (wide)",
        None,
    ),
    "a sum of a matrix": (
        "y = Add (square, square)",
        None,
    ),
    "a matrix and a row": (
        "y = Add (square, row)",
        None,
    ),
    "a sum that a float rounds": (
        """g = Constant <value_float = 16777216.0> ()  h = Constant <value_float = 1.0> ()
        s = Add (g, h)  y = Cast <to = 7> (s)""",
        "Scalar y",
    ),
    "cast to bytes": (
        "y = Cast <to = 2> (even)",
        None,
    ),
    "cast to 32 bits, too great": (
        "a = Mul (great, great)  y = Cast <to = 6> (a)",
        "Scalar y",
    ),
    "rounded by a float": (
        "a = Cast <to = 1> (great)  y = Cast <to = 7> (a)",
        "Scalar y",
    ),
    "less than nothing divided": (
        "y = Div (minus, two)",
        "Scalar y",
    ),
    "divided by less than nothing": (
        "y = Div (five, minus2)",
        "Scalar y",
    ),
    "a float divided": (
        "a = Cast <to = 1> (five) c = Cast <to = 1> (two) d = Div (a, c) y = Cast <to = 7> (d)",
        "Scalar y",
    ),
    "the least of each column": (
        "y = ReduceMin (square, zero1)",
        None,
    ),
    "the least of each, no axes": (
        "y = ReduceMin <noop_with_empty_axes = 1> (even, none)",
        None,
    ),
    "columns joined": (
        "y = Concat <axis = 1> (square, column)",
        None,
    ),
    "columns joined by a negative axis": (
        "y = Concat <axis = -1> (square, column)",
        None,
    ),
    "and of several and what is not known": (
        "y = And (flags, bs)",
        None,
    ),
    "and of none and what is not known": (
        "n = Not (flags) u = And (n, flags) y = And (bs, u)",
        "0, 0",
    ),
    "or of all and what is not known": (
        "n = Not (flags) u = Or (n, flags) y = Or (bs, u)",
        "1, 1",
    ),
    "and of one that decides for an unknown number": (
        "u = Equal (v, v) y = And (u, no)",
        None,
    ),
    "one of a number and a vector": (
        "y = Where (no, one, even)",
        None,
    ),
    "one of each of a matrix": (
        "y = Where (flags, square, square)",
        None,
    ),
    "filled with halves": (
        "y = ConstantOfShape <value = float[1] {0.5}> (two1)",
        None,
    ),
    "filled with truths": (
        "y = ConstantOfShape <value = bool[1] {1}> (two1)",
        None,
    ),
    "filled with no end": (
        "y = ConstantOfShape <value = float[1] {inf}> (two1)",
        None,
    ),
    "filled, 65": (
        "s = Constant <value = int64[1] {65}> () y = ConstantOfShape (s)",
        None,
    ),
    "a matrix filled": (
        "y = ConstantOfShape (both)",
        None,
    ),
    "columns cut": (
        "y = Slice (wide, one1, far, one1)",
        None,
    ),
    "no rows cut": (
        "y = Slice (wide, two1, far)",
        None,
    ),
    "three axes": (
        "y = Identity (deep)",
        None,
    ),
    "halves": (
        "y = Identity (halves)",
        None,
    ),
    "no end": (
        "y = Identity (endless)",
        None,
    ),
    "halves rounded": (
        "y = Ceil (halves)",
        None,
    ),
    "a part of a matrix": (
        "y, part = Split <axis = 1, num_outputs = 2> (square)",
        None,
    ),
    "parts of no known size": (
        "y, part = Split (even, v)",
        None,
    ),
    "parts of what is not known": (
        "y, part, more = Split <num_outputs = 3> (three)",
        None,
    ),
    "a shape that is not known": (
        "y = Reshape (both, v)",
        None,
    ),
    "rows of what is not known": (
        "y = Slice (four, zero1, one1)",
        None,
    ),
    "rows of a matrix of no known size": (
        "y = Slice (open, zero1, one1)",
        None,
    ),
    "sizes of a matrix of no known size": (
        "y = Shape (open)",
        "dimension 0 of open, dimension 1 of open",
    ),
    "sizes from the second": (
        "y = Shape <start = 1> (open)",
        "dimension 1 of open",
    ),
    "sizes to the second": (
        "y = Shape <start = 0, end = 1> (open)",
        "dimension 0 of open",
    ),
    "sizes but the last": (
        "y = Shape <end = -1> (open)",
        "dimension 0 of open",
    ),
    "the size of a matrix": (
        "y = Size (open)",
        "Scalar y",
    ),
    "the size of anything": (
        "y = Size (w)",
        "Scalar y",
    ),
    "the shape of anything": (
        "y = Shape (w)",
        None,
    ),
    "elements": (
        "y = SequenceLength (q)",
        "Length q",
    ),
    "elements that are listed": (
        "s = SequenceConstruct (x, w) y = SequenceLength (s)",
        "2",
    ),
    "elements by another name": (
        "s = Identity (q) y = SequenceLength (s)",
        "Length q",
    ),
    "rows apart": (
        "s = SplitToSequence (x) y = SequenceLength (s)",
        "dimension 0 of x",
    ),
    "columns apart": (
        "s = SplitToSequence <axis = 1> (x) y = SequenceLength (s)",
        "4",
    ),
    "columns apart, by the last axis": (
        "s = SplitToSequence <axis = -1> (x) y = SequenceLength (s)",
        "4",
    ),
    "what is apart of anything": (
        "s = SplitToSequence <axis = -1> (w) y = SequenceLength (s)",
        "Length s",
    ),
    "parts of given sizes": (
        "s = SplitToSequence (x, v) y = SequenceLength (s)",
        "dimension 0 of v",
    ),
    "parts of three columns": (
        "c = Constant <value = int64 {3}> () s = SplitToSequence <axis = 1> (x, c) y = SequenceLength (s)",
        "2",
    ),
    "parts of two columns": (
        "s = SplitToSequence <axis = 1> (x, two) y = SequenceLength (s)",
        "2",
    ),
    "parts of so many columns": (
        "s = SplitToSequence <axis = 1> (x, k) y = SequenceLength (s)",
        "Length s",
    ),
    "parts of two rows": (
        "s = SplitToSequence (x, two) y = SequenceLength (s)",
        "Length s",
    ),
    "an entry": (
        "y = Gather (v, five)",
        "v[5]",
    ),
    "an entry from the end": (
        "y = Gather (v, minus)",
        "Scalar y",
    ),
    "an entry of even steps": (
        "s = Size (v) y = Gather (even, s)",
        "3*dimension 0 of v + 2",
    ),
    "an entry of uneven steps": (
        "s = Size (v) y = Gather (uneven, s)",
        "uneven[dimension 0 of v]",
    ),
    "an entry of floats": (
        "s = Size (v) y = Gather (halves, s)",
        None,
    ),
    "an entry of a matrix": (
        "s = Size (v) y = Gather (square, s)",
        None,
    ),
    "an entry behind the end": (
        "y = Gather (even, five)",
        "Scalar y",
    ),
    "entries of a tail": (
        "t = Slice (v, one1, far) y = Gather (t, one)",
        "v[2]",
    ),
    "entries of a short tail": (
        "t = Slice (v, one1, two1) y = Gather (t, zero)",
        "v[1]",
    ),
    "entries of a tail from the end": (
        "t = Slice (v, minus1, far) y = Gather (t, zero)",
        "t[0]",
    ),
    "entries by another name": (
        "t = Identity (v) y = Gather (t, zero)",
        "v[0]",
    ),
    "numbers to compare": (
        "y = Less (k, l)",
        None,
    ),
    "a size to compare": (
        "s = Size (v) y = Less (s, zero)",
        "0",
    ),
    "a size to compare with less": (
        "s = Size (v) y = Greater (s, minus)",
        "1",
    ),
    "a size to compare with more": (
        "s = Size (v) y = Less (s, five)",
        None,
    ),
    "sizes that are equal": (
        "s = Size (v) t = Size (v) y = Equal (s, t)",
        "1",
    ),
    "sizes that differ": (
        "s = Size (v) t = Add (s, one) y = Equal (s, t)",
        "0",
    ),
    "a size and one, and nothing": (
        "s = Size (v) t = Add (s, one) y = Equal (t, zero)",
        "0",
    ),
    "sizes that may be equal": (
        "s = Size (v) y = Equal (s, zero)",
        None,
    ),
    "a truth of a size": (
        "s = Size (v) t = Add (s, one) y = Cast <to = 9> (t)",
        "1",
    ),
    "a truth of less": (
        "s = Size (v) m = Sub (minus, s) y = Cast <to = 9> (m)",
        "1",
    ),
    "a truth that is not known": (
        "s = Size (v) y = Cast <to = 9> (s)",
        None,
    ),
    "and what is not known": (
        "y = And (b, no)",
        "0",
    ),
    "and what may be": (
        "y = And (b, yes)",
        None,
    ),
    "or what is not known": (
        "y = Or (b, yes)",
        "1",
    ),
    "or what may be": (
        "y = Or (b, no)",
        None,
    ),
    "not what is not known": (
        "y = Not (b)",
        None,
    ),
    "one of two by what is not known": (
        "y = Where (b, both, ones)",
        None,
    ),
    "one of each by what is not known": (
        "y = Where (bs, both, ones)",
        None,
    ),
    "one of what is not known": (
        "y = Where (flags, both, v)",
        None,
    ),
    "one known, one not": (
        "y = Where (yes, one, k)",
        "1",
    ),
    "the less of a number and several": (
        "lt = Less (k, l) y = Where (lt, k, even)",
        None,
    ),
    "a product": (
        "y = Mul (k, l)",
        "Scalar y",
    ),
    "a multiple": (
        "y = Mul (k, two)",
        "2*Scalar k",
    ),
    "a size divided": (
        "s = Size (v) y = Div (s, two)",
        "Scalar y",
    ),
    "a number divided by a size": (
        "s = Size (v) y = Div (five, s)",
        "Scalar y",
    ),
    "a size through a float": (
        "s = Size (v) a = Cast <to = 1> (s) y = Cast <to = 7> (a)",
        "dimension 0 of v",
    ),
    "a size and more than a float holds": (
        "s = Size (v) g = Add (s, great) a = Cast <to = 1> (g) y = Cast <to = 7> (a)",
        "Scalar y",
    ),
    "a size and more, through a double": (
        "s = Size (v) g = Add (s, great) a = Cast <to = 11> (g) y = Cast <to = 7> (a)",
        "Scalar y",
    ),
    "filled by what is not known": (
        "y = ConstantOfShape (v)",
        None,
    ),
    "the least of what is not known": (
        "y = ReduceMin <keepdims = 0> (v)",
        "Scalar y",
    ),
    **{
        f"the {name} of two numbers, by {flag}": (f"c = {flag}  y = Where (c, {chosen})", said)
        for name, flag, chosen, said in (
            ("lesser", "Less (k, five)", "k, five", "Least of Scalar k, 5"),
            ("lesser", "LessOrEqual (k, five)", "k, five", "Least of Scalar k, 5"),
            ("lesser", "Greater (five, k)", "k, five", "Least of Scalar k, 5"),
            ("lesser", "Greater (k, five)", "five, k", "Least of Scalar k, 5"),
            ("greater", "GreaterOrEqual (k, five)", "k, five", "Greatest of Scalar k, 5"),
            ("greater", "Less (k, five)", "five, k", "Greatest of Scalar k, 5"),
            ("greater", "LessOrEqual (k, zero)", "one, k", "Greatest of 1, Scalar k"),
            ("greater", "Less (k, two)", "one, k", "Greatest of 1, Scalar k"),
        )
    },
    **{
        f"neither of two numbers, by {flag}": (f"c = {flag}  y = Where (c, {chosen})", "Scalar y")
        for flag, chosen in (
            ("Less (k, one)", "two, k"),
            ("LessOrEqual (k, five)", "k, two"),
            ("Greater (k, zero)", "two, k"),
            ("Equal (k, five)", "k, five"),
            ("Less (k, l)", "k, five"),
            ("Less (f, f)", "k, five"),
        )
    },
    "the size of a part": (
        "p = Slice (x, zero1, one1, one1) y = Shape <start = 0, end = 1> (p)",
        "dimension 0 of x",
    ),
    "the size that is cut": (
        "p = Slice (x, zero1, one1, zero1) y = Shape <start = 0, end = 1> (p)",
        "dimension 0 of p",
    ),
    "the size of a part along no known axis": (
        "p = Slice (x, zero1, one1, v) y = Shape <start = 0, end = 1> (p)",
        "dimension 0 of p",
    ),
}
"""What is followed of the rest, in the words of `describe`; None where nothing is."""


def followed(lines: str) -> Numbers | None:
    """Return what is known of ``y``."""
    model = ir.from_onnx_text(TEXT % lines)
    (y,) = (out for node in model.graph for out in node.outputs if out.name == "y")
    return Evaluator(type_values(model, proven=True)).of(y)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    proto = onnx.parser.parse_model(TEXT % CONSTANTS[name])
    proto.graph.node.pop()
    proto.graph.output[0].name = "y"
    proto.graph.output[0].ClearField("type")
    del proto.graph.input[:]
    (expected,) = ReferenceEvaluator(onnx.shape_inference.infer_shapes(proto)).run(["y"], {})
    found = followed(CONSTANTS[name])
    assert found is not None
    np.testing.assert_array_equal([n.number for n in found], np.asarray(expected).reshape(-1))


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    lines, expected = OTHERS[name]
    found = followed(lines)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        said = [describe(n).replace("1*", "").replace(" + 0", "") for n in found]
        assert ", ".join(said) == expected


def test_an_older_slice() -> None:
    text = """<ir_version: 4, opset_import: ["" : 9]>
    g (int64[K] v, float[N,3] x) => (int64 y, int64[1] z) <int64 one = {1}>
    { t = Slice <starts = [1], ends = [99]> (v)  y = Gather (t, one)
      s = Shape (x)  z = Slice <starts = [1], ends = [2]> (s) }"""
    model = ir.from_onnx_text(text)
    evaluator = Evaluator(type_values(model, proven=True))
    (entry,), (size,) = (evaluator.of(value) for value in model.graph.outputs)
    assert [describe(entry), describe(size)] == ["1*t[1] + 0", "1*Scalar z + 0"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = Add (n, two1) y = Expand (five, s)", [5, 5]),
        ("s = Add (n, three1) y = Expand (even, s)", [2, 5, 8]),
        ("s = Sub (n, two1) y = Expand (five, s)", None),
        ("s = Concat <axis = 0> (v, two1) y = Expand (five, s)", None),
    ],
    ids=["a number", "a vector", "less than none", "what nothing tells"],
)
def test_a_size_by_what_two_counters_of_a_loop_differ(
    nodes: str, expected: list[int] | None
) -> None:
    """Only who follows the loop knows it: no type tells it."""
    nodes = f"three1 = Identity (three2) d = Sub (k, l) n = Unsqueeze (d, zero1) {nodes}"
    text = TEXT.replace("int64[1] two1", "int64[1] three2 = {3}, int64[1] two1")
    model = ir.from_onnx_text(text % nodes)
    counters = {v: (Linear.of(ITERATION),) for v in model.graph.inputs if v.name in ("k", "l")}
    y = next(v for node in model.graph for v in node.outputs if v.name == "y")
    found = Evaluator(type_values(model, proven=True), known=counters).of(y)
    assert expected == (None if found is None else [n.number for n in found])
