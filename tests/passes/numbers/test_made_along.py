"""What tensors are made of along an axis, how many pieces a split makes, and lowest numbers."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import length_of
from passes.numbers.integers import ITERATION, Entry, Length, Linear
from passes.numbers.made_sizes import made_along
from passes.numbers.vector_reads import entry, lowest
from passes.typing import type_values

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g (float[A,B,C] x, float[A,B,C] z, float[5,3] w, float f, int64[D] at, int64[D,E] grid, int64 k,
   int64 one_at, float[] u, int64[A] sizes, seq(float[B]) q) => (int64 r)
<int64[1] at0 = {0}, int64[1] at1 = {1}, int64[1] minus1 = {-1}, int64[2] outer = {0, 2},
 int64[1] two1 = {2}, int64[2] three = {1, 4}, int64 two = {2}, int64 one = {1}, int64 five = {5},
 int64 zero = {0}, int64[1] far = {9223372036854775807}, int64[1] far32 = {2147483647},
 int64[1] near = {2147483646}, int64[1] minus2 = {-2},
 int64[0] none = {}, float[2] halves = {3, 1}>
{ %s r = Identity (k) }"""
MADE: dict[str, tuple[str, int, tuple[str, int] | None]] = {
    "an input": ("y = Identity (x)", 1, ("x", 1)),
    "of no operator": ("y = own.Thing (x)", 1, None),
    "another operator": ("y = ReduceSum (x)", 1, None),
    "of any rank": ("y = Transpose (u)", 0, None),
    "no such axis": ("y = Transpose (x)", 3, None),
    "no such axis, from the end": ("y = Transpose (x)", -4, None),
    "the first, from the end": ("y = Transpose <perm = [1, 2, 0]> (x)", -3, ("x", 1)),
    "turned": ("y = Transpose <perm = [1, 2, 0]> (x)", 2, ("x", 0)),
    "turned over": ("y = Transpose (x)", 0, ("x", 2)),
    "cut along another axis": ("y = Slice (x, at0, two1, at1)", 0, ("x", 0)),
    "cut along it": ("y = Slice (x, at0, two1, at1)", 1, None),
    "cut along it, from the end": ("y = Slice (x, at0, two1, minus1)", 2, None),
    "cut along an axis that is fed": ("y = Slice (x, at0, two1, at)", 0, None),
    "cut along the first axes": ("y = Slice (x, at0, two1)", 1, None),
    "a part of another axis": ("y, v = Split <axis = 1, num_outputs = 2> (x)", 0, ("x", 0)),
    "a part of it": ("y, v = Split <axis = -1, num_outputs = 2> (x)", 2, None),
    "a part of the first": ("y, v = Split <num_outputs = 2> (x)", 0, None),
    "in front of a new axis": ("y = Unsqueeze (x, at1)", 0, ("x", 0)),
    "a new axis": ("y = Unsqueeze (x, at1)", 1, None),
    "behind a new axis": ("y = Unsqueeze (x, at1)", 2, ("x", 1)),
    "between new axes": ("y = Unsqueeze (x, outer)", 1, ("x", 0)),
    "behind new axes": ("y = Unsqueeze (x, outer)", 4, ("x", 2)),
    "with axes that are fed": ("y = Unsqueeze (x, at)", 0, None),
    "behind an axis that is gone": ("y = Squeeze (x, at1)", 1, ("x", 2)),
    "behind the last axis, gone": ("y = Squeeze (x, minus1)", 1, ("x", 1)),
    "without any of its axes": ("y = Squeeze (x)", 0, None),
    "picked": ("y = Gather <axis = 1> (x, at)", 1, ("at", 0)),
    "picked beside it": ("y = Gather <axis = 1> (x, at)", 0, None),
    "picked in front of it": ("y = Gather <axis = 1> (x, at)", 2, None),
    "picked by a grid": ("y = Gather <axis = -2> (x, grid)", 2, ("grid", 1)),
    "picked behind a grid": ("y = Gather <axis = -2> (x, grid)", 3, None),
    "with a number": ("y = Mul (f, x)", 1, ("x", 1)),
    "with another tensor": ("y = Mul (z, x)", 1, None),
    "two numbers": ("y = Mul (f, f)", 0, None),
    "rows times a matrix": ("y = MatMul (x, w)", 1, ("x", 1)),
    "times the columns of a matrix": ("y = MatMul (x, w)", 2, ("w", 1)),
    "times a stack of matrices": ("y = MatMul (z, x)", 0, None),
    "a matrix times matrices": ("y = MatMul (w, x)", 1, None),
    "rows of a Gemm": ("y = Gemm <transB = 1> (w, w)", 0, ("w", 0)),
    "rows of a Gemm, turned": ("y = Gemm <transA = 1> (w, w)", 0, ("w", 1)),
    "columns of a Gemm": ("y = Gemm <transA = 1> (w, w)", 1, ("w", 1)),
    "columns of a Gemm, turned": ("y = Gemm <transB = 1> (w, w)", 1, ("w", 0)),
}
ALONE = """Abs Ceil Cos Exp Floor Identity Log Neg Reciprocal Relu Round Sigmoid Sign Sin Softmax
    Sqrt Tanh"""
MADE |= {f"{op_type} of it": (f"y = {op_type} (x)", 1, ("x", 1)) for op_type in ALONE.split()}
MADE |= {
    "a cast of it": ("y = Cast <to = 7> (x)", 1, ("x", 1)),
    "the opposite of flags": ("c = Cast <to = 9> (x) y = Not (c)", 1, ("c", 1)),
}


def reader(lines: str) -> tuple[Evaluator, dict[str, ir.Value]]:
    """Return what reads numbers, and the values by their names."""
    graph = (model := ir.from_onnx_text(TEXT % lines)).graph
    values = {str(v.name): v for v in (*graph.inputs, *(v for n in graph for v in n.outputs))}
    values |= graph.initializers
    return Evaluator(type_values(model, proven=True)), values


@pytest.mark.parametrize("name", MADE)
def test_what_is_behind_an_axis(name: str) -> None:
    lines, axis, expected = MADE[name]
    evaluator, values = reader(lines)
    found = made_along(evaluator, values["y"], axis)
    assert found == (None if expected is None else (values[expected[0]], expected[1]))


PIECES: dict[str, tuple[str, int | str | None]] = {
    "rows": ("y = SplitToSequence (w)", 5),
    "columns": ("y = SplitToSequence <axis = 1> (w)", 3),
    "columns, from the end": ("y = SplitToSequence <axis = -1> (w)", 3),
    "of so many rows": ("y = SplitToSequence (w, two)", 3),
    "of as many rows as there are": ("y = SplitToSequence (w, five)", 1),
    "of one row": ("y = SplitToSequence (w, one)", 5),
    "of so many rows, in a vector": ("y = SplitToSequence (w, two1)", 1),
    "of given sizes": ("y = SplitToSequence (w, three)", 2),
    "of no rows": ("y = SplitToSequence (w, zero)", None),
    "of as many as are fed": ("y = SplitToSequence (w, k)", None),
    "of so many of any number": ("y = SplitToSequence (x, two)", None),
    "of nearly equal sizes, as torch.tensor_split writes them": (
        """s = Shape (x) n = Gather (s, at0) large = Mod (n, two1) small = Sub (two1, large)
        d = Div (n, two1) v = Add (d, at1) a = Tile (v, large) b = Tile (d, small)
        c = Concat <axis = 0> (a, b) y = SplitToSequence (x, c)""",
        2,
    ),
    "tensors": ("y = SequenceConstruct (x, z)", 2),
    "one for each": (
        "y = SequenceMap (q) <body = b (float[B] e) => (float[B] o) { o = Neg (e) }>",
        "q",
    ),
    "with one more": (
        "e = ReduceSum <keepdims = 0> (x, outer) y = SequenceInsert (q, e)",
        None,
    ),
    "what is fed": ("y = Identity (q)", "q"),
}


@pytest.mark.parametrize("name", PIECES)
def test_how_many(name: str) -> None:
    lines, expected = PIECES[name]
    evaluator, values = reader(lines)
    found = length_of(evaluator, values["y"])
    if isinstance(expected, int):
        assert found == Linear(expected)
    else:
        assert found == Linear.of(Length(values[expected or "y"]))


def test_the_least_that_a_number_may_be() -> None:
    _, values = reader("y = Identity (k)")
    i, last = Linear.of(ITERATION), Linear(9)
    known, real, empty = (Linear.of(Entry(values[v], i)) for v in ("three", "halves", "none"))
    assert lowest(i * 2 + 1, last) == Linear(1)
    assert lowest(i * -2 + 1, last) == Linear(-17)
    assert lowest(i * -2 + 1, None) == i * -2 + 1
    assert lowest(known * 2, last) == Linear(2)
    assert lowest(known * -2, last) == Linear(-8)
    assert lowest(real, last) == real
    assert lowest(empty, last) == empty


TAILS: dict[str, tuple[str, tuple[str, int]]] = {
    "itself": ("y = Identity (at)", ("at", 0)),
    "behind the second": ("y = Slice (at, two1, far)", ("at", 2)),
    "to the end, as older exporters say it": ("y = Slice (at, two1, far32)", ("at", 2)),
    "to an end": ("y = Slice (at, two1, near)", ("y", 0)),
    "all": ("y = Slice (at, at0, far)", ("at", 0)),
    "the last two": ("y = Slice (at, minus2, far)", ("y", 0)),
    "each": ("y = Slice (at, two1, far, at0, at1)", ("at", 2)),
    "every second": ("y = Slice (at, two1, far, at0, two1)", ("y", 0)),
    "from where is fed": ("p = Reshape (k, at1) y = Slice (at, p, far)", ("y", 0)),
    "to what is fed": ("p = Reshape (k, at1) y = Slice (at, two1, p)", ("y", 0)),
    "the tail of a tail": ("a = Slice (at, two1, far) y = Slice (a, at1, far)", ("at", 3)),
    "computed": ("y = Neg (at)", ("y", 0)),
}


@pytest.mark.parametrize("name", TAILS)
def test_which_entry_it_is(name: str) -> None:
    lines, (vector, more) = TAILS[name]
    _, values = reader(lines)
    assert entry(values["y"], Linear.of(ITERATION)) == Linear.of(
        Entry(values[vector], Linear.of(ITERATION) + more)
    )
