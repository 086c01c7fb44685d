"""Between which numbers the elements of a tensor lie."""

from __future__ import annotations

import math

import onnx_ir as ir
import pytest

from passes.carried.recurrences.bounded import NumberSpans
from passes.typing import type_values
from tests.passes.loops import model

pytestmark = pytest.mark.quick

ANY = (-math.inf, math.inf)
SPANS = {
    "Sigmoid (x)": (0, 1),
    "Softmax (x)": (0, 1),
    "Tanh (x)": (-1, 1),
    "Softplus (x)": (0, math.inf),
    "Identity (x)": ANY,
    "Relu (x)": (0, math.inf),
    "Abs (t)": (0, 1),
    "Neg (g)": (-1, 0),
    "Exp (n)": (0, 1),
    "Exp (x)": (0, math.inf),
    "Sub (one, g)": (0, 1),
    "Sub (g, one)": (-1, 0),
    "Add (g, t)": (-1, 2),
    "Sum (g, g, one)": (1, 3),
    "Mul (half, g)": (0, 0.5),
    "Mul (half, t)": (-0.5, 0.5),
    "Mul (x, x)": (0, math.inf),
    "Mul (t, t)": (0, 1),
    "Mul (x, zeros)": (0, 0),
    "Div (g, half)": (0, 2),
    "Div (g, t)": ANY,
    "Div (half, n)": ANY,
    "Clip (x, half, one)": (0.5, 1),
    "Clip (e, , one)": (0, 1),
    "Clip (x, half)": (0.5, math.inf),
    "Max (x, half)": (0.5, math.inf),
    "Min (e, one)": (0, 1),
    "Where (c, g, t)": (-1, 1),
    "Concat <axis = 0> (g, t)": (-1, 1),
    "Cast <to = 1> (c)": (0, 1),
    "Cast <to = 1> (k)": ANY,
    "Cast <to = 1> (ten)": (10, 10),
    "Cast <to = 1> (wrapped)": ANY,
    "Cast <to = 11> (g)": (0, 1),
    "CastLike (g, x)": (0, 1),
    "CastLike (c, x)": (0, 1),
    "CastLike (x, k)": ANY,
    "Gather (g, k)": (0, 1),
    "Transpose (t)": (-1, 1),
    "ReduceMax (g)": ANY,
    "Add (large, large)": (0, math.inf),
    "Neg (large)": (-60000, 0),
    "ReduceMean (g)": ANY,
    "Constant <value = float[3] {1.0, -2.0, 0.5}> ()": (-2, 1),
    "Log (x)": ANY,
}


@pytest.mark.parametrize("made", SPANS)
def test_bounds_follow_from_those_of_operands(made: str) -> None:
    text = f"""g (float[N] x, bool[N] c, int64[N] k) => (float[] y) {{
        one = Constant <value = float {{1.0}}> ()  half = Constant <value = float {{0.5}}> ()
        wide = Constant <value = float {{60000.0}}> ()  half2 = Sigmoid (x)
        large = Mul (wide, half2)  zeros = Constant <value = float[1] {{0.0}}> ()
        ten = Constant <value = uint8 {{10}}> ()  bytes = Cast <to = 2> (k)
        few = Min (bytes, ten)  wrapped = Sub (few, ten)
        g = Sigmoid (x)  t = Tanh (x)  a = Abs (x)  n = Neg (a)  e = Exp (x)
        y = {made}
    }}"""
    given = ir.from_proto(model(text))
    (value,) = given.graph.outputs
    assert NumberSpans(type_values(given, proven=True), {}).of(value) == SPANS[made]
