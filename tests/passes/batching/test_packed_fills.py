"""Values of a sample's own length, and values whose lengths are equal by proof."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, run_model, shared
from tests.passes.batching.ragged import (
    RaggedCase,
    feeds_of,
    fused,
    prove_ragged,
    ragged,
    wanted,
)

X, V = ragged(4), ragged()
ROW, LONG = shared(np.arange(4, dtype=np.float32)), shared(np.array([6]))
ZERO, ONE, TWO = (constant(np.array([n])) for n in range(3))
LAST = "s = Shape(x) "
REST = "n = Shape<start = 0, end = 1>(x) rest = Sub(L, n) "


def case(name: str, nodes: str, rtol: float = 0, **operands: Operand) -> RaggedCase:
    return RaggedCase(name, nodes, operands, rtol=rtol, atol=0)


FILLS = [
    case("zeros like", LAST + "y = ConstantOfShape(s)", x=X),
    case(
        "flags like",
        LAST + "y = ConstantOfShape<value = bool[1] {1}>(s)",
        x=X,
    ),
    case(
        "added to what they are like",
        LAST + "o = ConstantOfShape<value = float[1] {1}>(s) y = Add(x, o)",
        x=X,
    ),
    case(
        "of a row more than the sample has",
        "n = Shape<start = 0, end = 1>(x) m = Add(n, one) s = Concat<axis = 0>(two, m) "
        "y = ConstantOfShape(s)",
        x=V,
        one=ONE,
        two=TWO,
    ),
    case(
        "twice as long",
        "n = Shape(x) m = Mul(n, two) y = ConstantOfShape(m)",
        x=V,
        two=TWO,
    ),
    case("full like, by Expand", LAST + "y = Expand(v, s)", x=X, v=mapped(())),
    case("one number for all, by Expand", LAST + "y = Expand(v, s)", x=X, v=shared(np.float32(2))),
    case("a row for each of its rows", LAST + "y = Expand(v, s)", x=X, v=mapped((4,))),
    case("a shared row", LAST + "y = Expand(v, s)", x=X, v=ROW),
    case("a row of rank 2", LAST + "y = Expand(v, s)", x=X, v=mapped((1, 4))),
    case("columns", "t = Transpose(x) s = Shape(t) y = Expand(v, s)", x=X, v=mapped((4, 1))),
    case("the sample itself", LAST + "y = Expand(x, s)", x=X),
    case(
        "the sample along a further axis",
        LAST + "t = Concat<axis = 0>(two, s) y = Expand(x, t)",
        x=X,
        two=TWO,
    ),
    case(
        "as PyTorch writes expand",
        "n = Shape<start = 0, end = 1>(x) minus = Constant<value_ints = [-1]>() "
        "s = Concat<axis = 0>(n, minus) k = Shape(s) ones = ConstantOfShape<value = int64[1] {1}>(k) "
        "m = Mul(ones, minus) e = Equal(s, m) t = Where(e, ones, s) y = Expand(v, t)",
        x=X,
        v=mapped((1, 4)),
    ),
    case(
        "places in a sample",
        "n = Shape(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>() "
        "m = Squeeze(n) y = Range(zero, m, one)",
        x=V,
    ),
    case(
        "places beside what they are places of",
        "n = Shape(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>() "
        "m = Squeeze(n) i = Range(zero, m, one) f = Cast<to = 1>(i) y = Add(x, f)",
        x=V,
    ),
]

CONCATS = [
    case(
        "padded with zeros",
        REST + "o = ConstantOfShape(rest) y = Concat<axis = 0>(x, o)",
        x=V,
        L=LONG,
    ),
    case(
        "padded in front",
        REST + "o = ConstantOfShape<value = float[1] {-2}>(rest) y = Concat<axis = -1>(o, x)",
        x=V,
        L=LONG,
    ),
    case(
        "padded with rows",
        REST + "k = Constant<value_ints = [4]>() s = Concat<axis = 0>(rest, k) "
        "o = ConstantOfShape(s) y = Concat<axis = 0>(x, o)",
        x=X,
        L=LONG,
    ),
    case(
        "padded along the last axis",
        REST + "k = Constant<value_ints = [4]>() s = Concat<axis = 0>(k, rest) "
        "o = ConstantOfShape(s) t = Transpose(x) y = Concat<axis = 1>(t, o)",
        x=X,
        L=LONG,
    ),
    case(
        "padded with a number of run time",
        REST + "o = Expand(v, rest) y = Concat<axis = 0>(x, o)",
        x=V,
        L=LONG,
        v=shared(np.float32(3)),
    ),
    case(
        "padded with a number of the sample",
        REST + "o = Expand(v, rest) y = Concat<axis = 0>(x, o)",
        x=V,
        L=LONG,
        v=mapped(()),
    ),
    case(
        "a token in front, padding behind",
        REST + "o = ConstantOfShape(rest) y = Concat<axis = 0>(v, x, o)",
        x=V,
        L=LONG,
        v=mapped((1,)),
    ),
    case("a token in front", "y = Concat<axis = 0>(v, x)", x=V, v=mapped((1,))),
    case(
        "columns of two samples",
        "t = Transpose(x) u = Transpose(z) y = Concat<axis = 1>(t, u)",
        x=X,
        z=ragged(4, lengths=(1, 2, 0)),
    ),
]

EQUAL = [
    case(
        "differences",
        "a = Slice(x, one, end) b = Slice(x, zero, minus) y = Sub(a, b)",
        x=V,
        one=ONE,
        zero=ZERO,
        end=constant(np.array([2**62])),
        minus=constant(np.array([-1])),
    ),
    case(
        "differences of two of one length",
        "a = Slice(x, one, end, zero) b = Slice(z, zero, minus, zero) y = Mul(a, b)",
        x=X,
        z=ragged(4, seed=3),
        one=ONE,
        zero=ZERO,
        end=constant(np.array([2**62])),
        minus=constant(np.array([-1])),
    ),
    case(
        "to half of its length",
        "n = Shape(x) h = Div(n, two) a = Slice(x, zero, h) b = Slice(z, zero, h) y = Add(a, b)",
        x=V,
        z=ragged(seed=3),
        zero=ZERO,
        two=TWO,
    ),
    case(
        "padded by one, and its zeros",
        "p = Constant<value_ints = [1, 0]>() a = Pad(x, p) n = Shape(x) m = Add(n, one) "
        "o = ConstantOfShape<value = float[1] {1}>(m) y = Add(a, o)",
        x=V,
        one=ONE,
    ),
    case(
        "reshaped by a shape of its own",
        "n = Shape<start = 0, end = 1>(x) s = Concat<axis = 0>(n, two, two) y = Reshape(x, s)",
        x=X,
        two=TWO,
    ),
    case(
        "reshaped to as many rows again",
        "n = Shape<start = 0, end = 1>(x) m = Mul(n, two) s = Concat<axis = 0>(m, minus) "
        "y = Reshape(x, s)",
        x=ragged(4, lengths=(2, 1, 3)),
        two=TWO,
        minus=constant(np.array([-1])),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", [*FILLS, *CONCATS, *EQUAL], ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


FAILING = {
    "longer than it is padded to": (CONCATS[0], "L", np.array([2])),
    "longer than a value that it is padded to": (
        case(
            "",
            "n = Shape(x) w = Slice(z, zero, L) m = Shape(w) rest = Sub(m, n) o = ConstantOfShape(rest) "
            "p = Concat<axis = 0>(x, o) y = Neg(p)",
            x=V,
            z=shared(np.zeros(6, np.float32)),
            zero=ZERO,
            L=LONG,
        ),
        "L",
        np.array([2]),
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_alone_fails(name: str) -> None:
    made, operand, array = FAILING[name]
    model, _ = fused(made, wanted(made, 3))
    bad = {**made.operands, operand: shared(array)}
    feeds = feeds_of(dataclasses.replace(made, operands=bad), 3)
    with pytest.raises(Exception, match="Reshape"):
        run_model(ir.to_proto(model), feeds)


STACKED = {
    "rows": case("rows", "y = Neg(x)", x=ragged(4, lengths=(3, 3, 3))),
    "columns": case("columns", "t = Transpose(x) y = Neg(t)", x=ragged(4, lengths=(3, 3, 3))),
    "no numbers": case("no numbers", "y = Neg(x)", x=ragged(0, lengths=(3, 3, 3))),
}


@pytest.mark.parametrize("name", STACKED)
def test_samples_that_happen_to_be_equally_long_are_stacked(name: str) -> None:
    prove_ragged(STACKED[name], 3)


@pytest.mark.parametrize("name", STACKED)
def test_samples_that_are_not_do_not_stack(name: str) -> None:
    made = STACKED[name]
    model, _ = fused(made, wanted(made, 3))
    sound = made.operands["x"]
    rest = sound.samples[0].shape[1:]
    bad = dataclasses.replace(made, operands={"x": ragged(*rest, lengths=(3, 2, 4))})
    with pytest.raises(Exception, match="Reshape"):
        run_model(ir.to_proto(model), feeds_of(bad, 3))
