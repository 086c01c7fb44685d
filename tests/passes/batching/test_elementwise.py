"""Operators that work on each element by itself, and broadcasting ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    mapped,
    prove,
    shared,
    words,
)

X = mapped((3, 4))
ONES = np.ones((3, 4), np.float32)
BITS = np.bool_


def drawn(low: float, high: float, *shape: int, dtype: Any = np.float32, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(rng.uniform(low, high, shape).astype(dtype) for _ in range(3)))


UNARY = [
    *(
        Case(op, f"y = {op}(x)", {"x": X}, opset=23)
        for op in (
            "Abs",
            "Atan",
            "Ceil",
            "Cos",
            "Erf",
            "Exp",
            "Floor",
            "IsInf",
            "IsNaN",
            "Neg",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Cosh",
            "Tan",
            "Tanh",
            "Asinh",
            "Reciprocal",
            "Celu",
            "Elu",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "LeakyRelu",
            "Mish",
            "Relu",
            "Selu",
            "Shrink",
            "Softplus",
            "Softsign",
            "ThresholdedRelu",
            "Identity",
        )
    ),
    *(Case(op, f"y = {op}(x)", {"x": drawn(-0.9, 0.9, 5)}) for op in ("Acos", "Asin", "Atanh")),
    *(Case(op, f"y = {op}(x)", {"x": drawn(1, 9, 5)}) for op in ("Acosh", "Log", "Sqrt")),
    Case("Relu exact", "y = Relu(x)", {"x": X}, rtol=0, atol=0),
    Case("Relu rank 0", "y = Relu(x)", {"x": mapped(())}),
    Case("Relu symbolic", "y = Relu(x)", {"x": X}, symbolic=True),
    Case("Elu alpha", "y = Elu<alpha = 0.5>(x)", {"x": X}),
    Case("Gelu tanh", 'y = Gelu<approximate = "tanh">(x)', {"x": X}, opset=20),
    Case("Swish", "y = Swish<alpha = 0.5>(x)", {"x": X}, opset=24),
    Case("Not", "y = Not(x)", {"x": mapped((4,), dtype=BITS)}),
    Case("BitwiseNot", "y = BitwiseNot(x)", {"x": mapped((4,), dtype=np.int32)}),
    Case("Cast to int64", "y = Cast<to = 7>(x)", {"x": X}),
    Case("Cast to string", "y = Cast<to = 8>(x)", {"x": mapped((4,), dtype=np.int32)}),
    Case("Cast from string", "y = Cast<to = 1>(x)", {"x": words(["1.5"], ["-2"], ["3"])}),
    Case("BitCast", "y = BitCast<to = 6>(x)", {"x": X}, opset=26),
    Case(
        "IsInf of one sign",
        "y = IsInf<detect_negative = 0>(x)",
        {"x": mapped(*(np.array([k, -np.inf, np.inf], np.float32) for k in range(3)))},
    ),
    Case(
        "RegexFullMatch",
        'y = RegexFullMatch<pattern = "a+">(x)',
        {"x": words(["a", "b"], ["aa", "ab"], ["", "aaa"])},
        opset=20,
    ),
]

BINARY = [
    *(
        Case(f"{op} both", f"y = {op}(x, z)", {"x": X, "z": drawn(1, 3, 3, 4)})
        for op in (
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Pow",
            "Max",
            "Min",
            "Mean",
            "Sum",
            "PRelu",
            "Equal",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
        )
        if op != "Pow"
    ),
    Case("Pow", "y = Pow(x, z)", {"x": drawn(1, 3, 3, 4), "z": mapped((4,))}),
    *(
        Case(
            op,
            f"y = {op}(x, z)",
            {"x": mapped((2, 3), dtype=BITS), "z": mapped((3,), dtype=BITS, seed=1)},
        )
        for op in ("And", "Or", "Xor")
    ),
    *(
        Case(
            op,
            f"y = {op}(x, z)",
            {"x": mapped((2, 3), dtype=np.int32), "z": mapped((3,), dtype=np.int32, seed=1)},
        )
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    Case(
        "BitShift",
        'y = BitShift<direction = "LEFT">(x, z)',
        {"x": drawn(0, 9, 2, 3, dtype=np.uint32), "z": drawn(0, 4, 3, dtype=np.uint32)},
    ),
    Case(
        "Mod",
        "y = Mod(x, z)",
        {"x": drawn(-9, 9, 2, 3, dtype=np.int64), "z": drawn(1, 5, dtype=np.int64)},
    ),
    Case("Mod of floats", "y = Mod<fmod = 1>(x, z)", {"x": X, "z": shared(np.float32(2))}),
    Case(
        "Div of integers",
        "y = Div(x, z)",
        {"x": drawn(-9, 9, 2, 3, dtype=np.int64), "z": constant(np.int64(2))},
    ),
    Case("Add ranks 1 and 2", "y = Add(x, z)", {"x": mapped((4,)), "z": X}),
    Case("Add rank 0 and 2", "y = Add(z, x)", {"x": mapped(()), "z": X}, symbolic=True),
    Case("Add shared of higher rank", "y = Add(x, w)", {"x": mapped((4,)), "w": shared(ONES)}),
    Case("Add constant", "y = Add(w, x)", {"x": X, "w": constant(np.ones(4, np.float32))}),
    Case("Max of one", "y = Max(x)", {"x": mapped((3,))}),
    Case(
        "Sum of three",
        "y = Sum(x, w, z)",
        {"x": mapped((4,)), "w": shared(np.float32(2)), "z": mapped((3, 1))},
    ),
    Case(
        "Where per-sample condition",
        "y = Where(c, x, z)",
        {"c": mapped((), dtype=BITS), "x": mapped((2, 3)), "z": mapped((3,))},
    ),
    Case(
        "Where shared condition",
        "y = Where(c, x, z)",
        {"c": shared(np.array([[True], [False]])), "x": mapped((3,)), "z": mapped(())},
    ),
    Case(
        "Where shared choices",
        "y = Where(c, w, v)",
        {"c": mapped((2,), dtype=BITS), "w": shared(np.float32(1)), "v": constant(np.float32(2))},
    ),
    Case(
        "StringConcat",
        "y = StringConcat(x, z)",
        {"x": words(["a", "b"], ["c", "d"], ["e", "f"]), "z": words(["1"], ["2"], ["3"])},
        opset=20,
    ),
    Case(
        "StringConcat shared",
        "y = StringConcat(x, z)",
        {"x": words(["a"], ["c"], ["e"]), "z": shared(np.array([["u"], ["v"]], object))},
        opset=20,
    ),
    Case("PRelu slope of lower rank", "y = PRelu(x, s)", {"x": X, "s": mapped((4,), seed=1)}),
    Case(
        "PRelu shared slope", "y = PRelu(x, s)", {"x": X, "s": shared(np.float32([[2], [3], [4]]))}
    ),
    Case("PRelu shared input", "y = PRelu(x, s)", {"x": shared(-ONES), "s": mapped((), seed=1)}),
    Case("SwiGLU", "y = SwiGLU(x, z)", {"x": X, "z": mapped((3, 4), seed=1)}, opset=28),
    Case("SwiGLU shared", "y = SwiGLU<alpha = 2.0>(w, x)", {"x": X, "w": shared(ONES)}, opset=28),
]

LOW, HIGH = np.float32(-1), np.float32(1)
CASTS_AND_BOUNDS = [
    Case(
        "CastLike shared target",
        "y = CastLike(x, t)",
        {"x": X, "t": shared(np.zeros(3, np.int32))},
    ),
    Case(
        "CastLike mapped target", "y = CastLike(x, t)", {"x": X, "t": mapped((5,), dtype=np.int32)}
    ),
    Case(
        "CastLike shared input",
        "z = CastLike(w, t) y = Add(z, t)",
        {"t": mapped((5,), dtype=np.int32), "w": shared(np.float32(2))},
    ),
    Case("Clip", "y = Clip(x, l, h)", {"x": X, "l": constant(LOW), "h": shared(HIGH)}),
    Case("Clip without lower bound", "y = Clip(x, , h)", {"x": X, "h": constant(HIGH)}),
    Case("Clip without bounds", "y = Clip(x)", {"x": X}),
    Case(
        "Clip mapped lower bound",
        "y = Clip(x, l, h)",
        {"x": X, "l": mapped(()), "h": constant(HIGH)},
    ),
    Case("Clip mapped upper bound", "y = Clip(x, , h)", {"x": X, "h": mapped(())}, symbolic=True),
    Case(
        "Clip crossing bounds",
        "y = Clip(x, l, h)",
        {"x": X, "l": mapped(HIGH, LOW, HIGH), "h": mapped(LOW, HIGH, LOW)},
    ),
    *(
        Case(
            f"Clip by bounds that are NaN of {np.dtype(t).name}",
            "y = Clip(x, l, h)",
            {
                "x": drawn(-9, 9, 3, 4, dtype=t),
                "l": mapped(*(np.array(n, t) for n in (np.nan, -1, np.nan))),
                "h": mapped(*(np.array(n, t) for n in (2, np.nan, np.nan))),
            },
        )
        for t in (np.float16, np.float32, np.float64)
    ),
    Case(
        "Clip by a bound for all that is NaN",
        "y = Clip(x, l, h)",
        {"x": X, "l": mapped(()), "h": constant(np.float32(np.nan))},
    ),
    Case("Clip rank 0", "y = Clip(x, l)", {"x": mapped(()), "l": mapped((), seed=1)}),
    Case("Clip shared input", "y = Clip(x, l)", {"x": shared(ONES), "l": mapped(())}),
    *(
        Case(
            f"Clip mapped {np.dtype(t).name}",
            "y = Clip(x, l, h)",
            {
                "x": drawn(0, 100, 3, 4, dtype=t),
                "l": drawn(20, 50, dtype=t),
                "h": drawn(50, 80, dtype=t),
            },
        )
        for t in (
            np.int8,
            np.uint8,
            np.int16,
            np.uint16,
            np.int32,
            np.uint64,
            np.float16,
            np.float64,
        )
    ),
]

INFERENCE = constant(np.array(False))
DROPOUT = [
    Case("Dropout", "y, m = Dropout(x)", {"x": X}, ("y", "m")),
    Case(
        "Dropout ratio", "y = Dropout(x, r)", {"x": X, "r": mapped(LOW + 1.5, HIGH / 2, HIGH / 3)}
    ),
    Case(
        "Dropout inference",
        "y, m = Dropout<seed = 3>(x, r, t)",
        {"x": X, "r": constant(np.float32(0.3)), "t": INFERENCE},
        ("y", "m"),
        symbolic=True,
    ),
    Case("Dropout mask only", "_, m = Dropout(x, , t)", {"x": X, "t": INFERENCE}, ("m",)),
    Case("Dropout shared input", "z = Dropout(w) y = Add(x, z)", {"x": X, "w": shared(HIGH)}),
    Case("Dropout at 22", "y = Dropout(x)", {"x": X}, opset=22),
]


@BATCHES
@pytest.mark.parametrize("case", [*UNARY, *BINARY, *CASTS_AND_BOUNDS, *DROPOUT], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    Case("Clip attributes", "y = Clip<min = -1.0, max = 1.0>(x)", {"x": X}, opset=10),
    Case(
        "Clip inputs",
        "y = Clip(x, l, h)",
        {"x": X, "l": mapped(()), "h": constant(HIGH)},
        opset=11,
    ),
    Case("Dropout attribute", "y, m = Dropout<ratio = 0.3>(x)", {"x": X}, ("y", "m"), opset=11),
    Case("PRelu", "y = PRelu(x, s)", {"x": X, "s": mapped((4,))}, opset=11),
    Case("Add ranks", "y = Add(x, z)", {"x": mapped((4,)), "z": X}, opset=11),
    Case(
        "Where",
        "y = Where(c, x, z)",
        {"c": mapped((), dtype=BITS), "x": X, "z": shared(HIGH)},
        opset=11,
    ),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


RATIO = {"r": constant(np.float32(0.5))}
TRAINS = {"t": constant(np.array(True))}
DECLINES = [
    ("training", Case("", "y = Dropout(x, r, t)", {"x": X, **RATIO, **TRAINS}), "Dropout"),
    (
        "perhaps training",
        Case("", "y = Dropout(x, r, t)", {"x": X, **RATIO, "t": shared(True)}),
        "Dropout",
    ),
    (
        "training on a shared value",
        Case(
            "",
            "z = Dropout(w, r, t) y = Add(x, z)",
            {"x": X, "w": shared(ONES), **RATIO, **TRAINS},
        ),
        "Dropout",
    ),
    (
        "random",
        Case("", "z = RandomNormal<shape = [4]>() y = Add(x, z)", {"x": X}),
        "RandomNormal",
    ),
    (
        "random in a branch",
        Case(
            "",
            "z = If(c) <then_branch = a () => (float[4] p) { p = RandomUniform<shape = [4]>() },"
            " else_branch = b () => (float[4] q) "
            "{ q = Constant<value_floats = [1.0, 1.0, 1.0, 1.0]>() }>"
            " y = Add(x, z)",
            {"x": X, "c": shared(True)},
        ),
        "If",
    ),
]


@pytest.mark.parametrize(
    ("case", "op_type"), [d[1:] for d in DECLINES], ids=[d[0] for d in DECLINES]
)
def test_what_draws_for_every_sample_stays_in_a_loop(case: Case, op_type: str) -> None:
    assert (op_type, "random") in decline_of(case)
