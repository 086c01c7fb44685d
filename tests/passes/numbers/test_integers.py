"""Integers as sums: what is proven of them, and what a graph's small tensors are."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.opsets import find_misfit
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Dim, Least, Linear, Scalar
from passes.numbers.number_order import greatest, is_nonnegative, least
from passes.numbers.written_numbers import describe
from passes.typing import type_values

X, Y = ir.Value(name="x"), ir.Value(name="y")
N, M = (Linear.of(Dim((v, 0), v, 0)) for v in (X, Y))
K, S = Linear.of(ITERATION), Linear.of(Scalar(X))


def test_sums_are_equal_however_they_are_written() -> None:
    assert N + M - N == M
    assert ((N + 1) * 2 - N * 2).number == 2
    assert (N - N).number == 0
    assert (N * 3 + K).coefficient(ITERATION) == 1
    assert (N * 3 + K).without(ITERATION) == N * 3
    assert (K * 2 + 1).replace({ITERATION: N - 1}) == N * 2 - 1


PROVEN = [
    (N, True),
    (N - 1, False),
    (S, False),
    (N - S, False),
    (N - least([N, M]), True),
    (least([N, M]) - N, False),
    (least([N, M]), True),
    (greatest([N, M]) - M, True),
    (M - greatest([N, M]), False),
    (greatest([S, Linear(1)]) - 1, True),
    (greatest([N - 2, Linear()]), True),
    (N - 2 - least([N - 2, Linear(7)]), True),
    (least([N, S]), False),
    (least([N, S]) + least([M, S]) + least([K, S]) + least([N + M, S]), False),
]


@pytest.mark.parametrize(("number", "proven"), PROVEN, ids=[describe(n) for n, _ in PROVEN])
def test_what_is_proven_to_be_no_less_than_0(number: Linear, proven: bool) -> None:
    assert is_nonnegative(number) is proven


def test_the_least_leaves_out_what_another_is_never_more_than() -> None:
    assert least([N, N + 1]) == N
    assert greatest([N, N + 1]) == N + 1
    assert least([N, least([M, N + 3])]) == Linear.of(Least(frozenset({N, M})))
    assert least([Linear(3), Linear(5)]) == Linear(3)


PADS = """a = Unsqueeze (k, zero1)  b = Concat <axis = 0> (zero1, a)  c = Unsqueeze (b, zero1)
    none = Constant <value = int64[1,2] {0, 0}> ()  d = Concat <axis = 0> (c, none)
    turned = Constant <value = int64[2,1] {0, 0}> ()  flat = Constant <value = int64[1] {-1}> ()
    t = Transpose <perm = [1, 0]> (d)  """
VALUES = [
    ("y = Shape (x)", "dimension 0 of x, 4"),
    ("s = Shape (x)  y = Gather <axis = 0> (s, one)", "4"),
    ("s = Shape (x)  y = Slice (s, zero1, one1)", "dimension 0 of x"),
    ("s = Size (v)  y = Add (s, one)", "dimension 0 of v + 1"),
    ("s = Size (v)  y = Gather <axis = 0> (even, s)", "3*dimension 0 of v + 2"),
    ("y = Gather <axis = 0> (even, k)", "Scalar y"),
    ("y = Gather <axis = 0> (v, one)", "v[1]"),
    ("y = Gather <axis = 0> (v, k)", "Scalar y"),
    ("t = Less (one, zero)  y = Where (t, zero1, one1)", "1"),
    ("t = Less (one, zero)  y = Where (t, zero1, even)", None),
    ("y = Max (one, zero)", "1"),
    ("y = Mul (k, k)", "Scalar y"),
    ("y = Div (k, one)", "Scalar k"),
    ("y = Mod (k, one)", "Scalar y"),
    ("s = Shape (x)  y = Slice (s, zero1, zero1, zero1)", ""),
    (PADS + "y = Reshape (t, flat)", "0, 0, Scalar k, 0"),
    (PADS + "y = Add (t, turned)", None),
]


def evaluated(lines: str) -> str | None:
    """Return what ``y`` is, in the words of `describe`."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, int64[K] v, int64 k) => (int64 z)
    <int64 zero = {{0}}, int64 one = {{1}}, int64[1] zero1 = {{0}}, int64[1] one1 = {{1}},
     int64[3] even = {{2, 5, 8}}> {{ {lines} z = Identity (k) }}"""
    model = ir.from_onnx_text(text)
    (y,) = (out for node in model.graph for out in node.outputs if out.name == "y")
    found = Evaluator(type_values(model, proven=True)).of(y)
    if found is None:
        return None
    short = (describe(n).replace("1*", "").removesuffix(" + 0") for n in found)
    return ", ".join(short)


@pytest.mark.quick
@pytest.mark.parametrize(("lines", "expected"), VALUES)
def test_small_tensors(lines: str, expected: str | None) -> None:
    assert evaluated(lines) == expected


MISFITS = [
    ("ReduceSum", 2, 12, "at most 1 inputs"),
    ("ReduceSum", 2, 13, None),
    ("Reshape", 2, 13, "no attribute 'allowzero'"),
    ("Reshape", 2, 14, None),
    ("GridSample", 2, 15, "no operator"),
]


@pytest.mark.parametrize(("op_type", "inputs", "opset", "expected"), MISFITS)
def test_nodes_that_do_not_fit_an_opset(
    op_type: str, inputs: int, opset: int, expected: str | None
) -> None:
    attributes = {"allowzero": 1} if op_type == "Reshape" else {}
    given = [ir.Value(name=f"v{i}") for i in range(inputs)]
    found = find_misfit([ir.node(op_type, given, attributes)], opset)
    assert (found is None) if expected is None else (expected in (found or ""))


def test_a_type_that_an_operator_does_not_take_at_an_opset() -> None:
    value = ir.Value(name="v", type=ir.TensorType(ir.DataType.INT64))
    node = ir.node("Max", [value, value])
    assert find_misfit([node], 12) is None
    assert "does not take tensor(int64)" in (find_misfit([node], 11) or "")
