"""Operands that fit packed samples only in one form of several, with one of the others beside."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

X, OWN = ragged(4), mapped((4, 3))
ROW = shared(np.arange(3, dtype=np.float32).reshape(1, 3))
FALSE = constant(np.array(False))
SUMS = """z = Constant<value = float {{0}}>()
  y, w = Loop(n, , z) <body = b (int64 i, bool c, float s) => (bool d, float u, float v) {{
    d = Identity(c) {rows} q = ReduceSum<keepdims = 0>(r) u = Add(s, q) v = Identity(u) }}>"""
TRIPS = mapped(np.array(1), np.array(2), np.array(0))

TURNED = "t = Transpose<perm = [1, 0, 2]>(x) y = MatMulInteger(t, w, z)"

CASES = [
    RaggedCase(
        "a row of each added", "y = Gemm(x, w, c)", {"x": X, "w": OWN, "c": mapped((1, 3), seed=3)}
    ),
    RaggedCase("a shared row added", "y = Gemm(x, w, c)", {"x": X, "w": OWN, "c": ROW}),
    RaggedCase("a number of each added", "y = Gemm(x, w, c)", {"x": X, "w": OWN, "c": mapped(())}),
    RaggedCase("nothing added", "y = Gemm(x, w)", {"x": X, "w": constant(OWN.samples[0])}),
    RaggedCase(
        "a shared row added to a shared product",
        "y = Gemm(x, w, c)",
        {"x": X, "w": constant(OWN.samples[0]), "c": ROW},
    ),
    RaggedCase(
        "one scale, whatever the axis",
        "y = QuantizeLinear<axis = 0>(x, s)",
        {"x": X, "s": constant(np.float32(0.5))},
    ),
    RaggedCase(
        "two numbers around samples",
        "s = Shape(x) c = ConstantOfShape<value = float[1] {1}>(s) d = ConstantOfShape(s) "
        "y = Concat<axis = 0>(c, x, d)",
        {"x": ragged()},
    ),
    RaggedCase(
        "zeros around samples of one size",
        "s = Shape(x) c = ConstantOfShape(s) y = Concat<axis = 0>(c, m)",
        {"x": ragged(), "m": mapped((2,))},
    ),
    *(
        RaggedCase(
            f"a zero point of each sample, {name}",
            read if read == TURNED else f"y = MatMulInteger(x, w, z{read})",
            {
                "x": ragged(*rest, dtype=np.uint8, low=0, high=255),
                "w": shared(np.arange(-6, 6, dtype=np.int8).reshape(4, 3)),
                "z": mapped(*(np.array(n, np.uint8) for n in (0, 7, 255))),
                **others,
            },
            rtol=0,
            atol=0,
        )
        for name, rest, read, others in (
            ("alone", (4,), "", {}),
            ("matrices", (2, 4), "", {}),
            ("behind the first axis", (2, 4), TURNED, {}),
            ("and one of the weights", (4,), ", p", {"p": shared(np.array(-3, np.int8))}),
            ("and one of each column", (4,), ", p", {"p": shared(np.array([1, 2, -9], np.int8))}),
        )
    ),
    RaggedCase(
        "a product of bytes behind the first axis",
        "t = Transpose<perm = [1, 0, 2]>(x) y = QLinearMatMul(t, s, z, w, s, z, s, z)",
        {
            "x": ragged(2, 4, dtype=np.uint8, low=0, high=255),
            "w": shared(np.arange(12, dtype=np.uint8).reshape(4, 3)),
            "s": constant(np.float32(0.1)),
            "z": constant(np.uint8(3)),
        },
    ),
    RaggedCase(
        "axes that may be empty",
        "y = ReduceSum<noop_with_empty_axes = 1>(x, a)",
        {"x": X, "a": constant(np.array([1]))},
    ),
    RaggedCase(
        "one zero point, and none on the left",
        "y = MatMulInteger(x, w, z) v = MatMulInteger(x, w, , z)",
        {
            "x": ragged(4, dtype=np.uint8, low=0, high=9),
            "w": shared(np.arange(12, dtype=np.uint8).reshape(4, 3)),
            "z": shared(np.array(2, np.uint8)),
        },
        ("y", "v"),
    ),
    RaggedCase(
        "every second one of the first rows",
        "q = Slice(w, z, n, z, two) t = Transpose(q) y = MatMul(m, t)",
        {
            "m": mapped((2, 4)),
            "n": mapped(np.array([1]), np.array([3]), np.array([2])),
            "w": shared(np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)),
            "z": constant(np.array([0])),
            "two": constant(np.array([2])),
        },
    ),
]
LOOPS = [
    RaggedCase(
        "a condition that holds never",
        "y = Loop(m, f, z) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] u) { "
        "d = Identity(c) u = Add(s, s) }>",
        {"m": TRIPS, "f": FALSE, "z": mapped((4,))},
    ),
    RaggedCase(
        "as many steps as numbers",
        "n = Size(x) " + SUMS.format(rows="r = Identity(x)"),
        {"x": X},
        ("y", "w"),
    ),
    RaggedCase(
        "as many steps as columns",
        "t = Transpose(x) n = Shape<start = 1>(t) " + SUMS.format(rows="r = Identity(t)"),
        {"x": X},
        ("y", "w"),
    ),
    RaggedCase(
        "as many steps as columns, by position",
        "t = Transpose(x) k = Shape(t) o = Constant<value_int = 1>() n = Gather(k, o) "
        + SUMS.format(rows="r = Identity(t)"),
        {"x": X},
        ("y", "w"),
    ),
    RaggedCase(
        "one step at most",
        "y = Loop(m, f, z) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] u) { "
        "d = Constant<value = bool {0}>() u = Add(s, s) }>",
        {"m": TRIPS, "f": constant(np.array(True)), "z": mapped((4,))},
    ),
    RaggedCase(
        "a column in each step",
        "n = Size(m) " + SUMS.format(rows="r = Gather<axis = 1>(x, i)"),
        {"x": X, "m": ragged(lengths=(2, 1, 4))},
        ("y", "w"),
    ),
    RaggedCase(
        "positions for each step",
        "n = Size(x) t = Constant<value_floats = [1.0, 2.0, 3.0, 5.0]>() "
        + SUMS.format(rows="r = Gather(t, x)"),
        {"x": ragged(dtype=np.int64, low=0, high=3.9)},
        ("y", "w"),
    ),
]


QUANTIZED = RaggedCase(
    "quantized as its numbers ask",
    "q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z) f = Cast<to = 1>(i) y = Mul(f, s)",
    {"x": X, "w": shared(np.arange(-6, 6, dtype=np.int8).reshape(4, 3))},
)


@pytest.mark.parametrize("batch", [0, 3])
def test_dynamic_quantization_ends_without_a_loop_where_there_is_none(batch: int) -> None:
    prove_ragged(QUANTIZED, batch, lacks=("Loop",))


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.sampled
@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_steps_equal_those_of_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, inside=2)
