"""Operators that quantize floats and take quantized numbers back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import declines_directly, prove_directly
from tests.passes.batching.harness import BATCHES, Case, Operand, constant, mapped, prove, shared


def scales(*shape: int, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(np.asarray(rng.random(shape) / 8 + 0.02, np.float32) for _ in range(3)))


def bytes_(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(np.asarray(rng.integers(0, 100, shape), dtype) for _ in range(3)))


X = mapped((2, 3, 4))
Q = bytes_(2, 3, 4)
POINT = np.uint8(7)


def quantize(name: str, attributes: str = "", opset: int = 18, **operands: Operand) -> Case:
    text = f"y = QuantizeLinear{attributes}({', '.join(operands)})"
    return Case(f"QuantizeLinear {name}", text, operands, opset=opset)


def dequantize(
    name: str,
    attributes: str = "",
    opset: int = 18,
    *,
    symbolic: bool = False,
    **operands: Operand,
) -> Case:
    text = f"y = DequantizeLinear{attributes}({', '.join(operands)})"
    return Case(
        f"DequantizeLinear {name}", text, operands, opset=opset, symbolic=symbolic, rtol=0, atol=0
    )


CASES = [
    quantize("per tensor", x=X, s=constant(np.float32(0.1)), z=constant(POINT)),
    quantize("scale of one element", x=X, s=shared(np.array([0.1], np.float32))),
    quantize("per tensor of rank 1", x=mapped((5,)), s=constant(np.float32(0.1))),
    quantize("per tensor of rank 0", x=mapped(()), s=constant(np.float32(0.1))),
    quantize("per axis, default", x=X, s=constant(scales(3).first), z=shared(bytes_(3).first)),
    quantize("per axis 0", "<axis = 0>", x=X, s=shared(scales(2).first)),
    quantize("per axis -1", "<axis = -1>", x=X, s=shared(scales(4).first)),
    quantize("mapped scale", x=X, s=scales(), z=constant(POINT)),
    quantize("mapped scale of one element", x=X, s=scales(1), z=bytes_(1)),
    quantize("mapped scale of rank 0", x=mapped(()), s=scales()),
    quantize("mapped zero point", x=X, s=shared(np.float32(0.1)), z=bytes_()),
    quantize("mapped scale, shared input", x=shared(X.first), s=scales()),
    quantize("mapped scales per axis", x=X, s=scales(3), z=shared(bytes_(3).first)),
    quantize("mapped scales per axis 0", "<axis = 0>", x=X, s=scales(2)),
    quantize("mapped scales per axis -1", "<axis = -1>", x=X, s=scales(4), z=bytes_(4)),
    quantize("per axis, shared input", x=shared(X.first), s=scales(3)),
    quantize("to int8", x=X, s=scales(), z=bytes_(dtype=np.int8)),
    quantize("output_dtype", "<output_dtype = 3>", 21, x=X, s=scales()),
    quantize("precision", "<precision = 1>", 23, x=X, s=constant(np.float32(0.1))),
    quantize("blocks", "<axis = -1, block_size = 2>", 21, x=X, s=constant(scales(2, 3, 2).first)),
    quantize("blocks, default axis", "<block_size = 3>", 21, x=X, s=scales(2, 1, 4)),
    quantize(
        "blocks, mapped zero point",
        "<axis = 2, block_size = 2>",
        21,
        x=X,
        s=shared(scales(2, 3, 2).first),
        z=bytes_(2, 3, 2),
    ),
    dequantize("per tensor", x=Q, s=constant(np.float32(0.1)), z=constant(POINT)),
    dequantize("per axis, default", x=Q, s=constant(scales(3).first), symbolic=True),
    dequantize("per axis -1", "<axis = -1>", x=Q, s=shared(scales(4).first)),
    dequantize("of int32", x=bytes_(2, 3, dtype=np.int32), s=scales()),
    dequantize("mapped scale", x=Q, s=scales(), z=shared(POINT), symbolic=True),
    dequantize("mapped scales per axis", x=Q, s=scales(3), z=bytes_(3), symbolic=True),
    dequantize("mapped scales per axis 2", "<axis = 2>", x=Q, s=scales(4)),
    dequantize("shared input", x=shared(Q.first), s=scales(), z=bytes_()),
    dequantize("blocks", "<axis = 0, block_size = 2>", 21, x=Q, s=scales(1, 3, 4)),
    dequantize("at 23", "<output_dtype = 1>", 23, x=Q, s=constant(np.float32(0.5))),
]


def dynamic(name: str, *samples: np.ndarray[Any, Any], **more: Any) -> Case:
    text = "y, s, z = DynamicQuantizeLinear(x)"
    given = {"x": mapped(*samples)}
    more = {"rtol": 0, "atol": 0, **more}
    return Case(f"DynamicQuantizeLinear {name}", text, given, ("y", "s", "z"), **more)


RNG = np.random.default_rng(0)
DYNAMIC = [
    dynamic("wide", *(RNG.standard_normal((3, 4)).astype(np.float32) * k for k in (1, 9, 100))),
    dynamic(
        "one sign", *(RNG.random((3, 4), np.float32) * k for k in (1, -9, 100)), symbolic=True
    ),
    dynamic("zeros", *(np.full((3,), k, np.float32) for k in (0, 2, 0))),
    dynamic("rank 0", *(np.asarray(k, np.float32) for k in (3, -2, 0))),
    dynamic(
        "at 17", *(RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(3)), opset=17
    ),
]


@BATCHES
@pytest.mark.parametrize("case", [*CASES, *DYNAMIC], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    quantize("per tensor at 11", "", 11, x=X, s=shared(np.float32(0.1)), z=shared(POINT)),
    quantize("mapped scale at 13", "", 13, x=X, s=scales(3), z=bytes_(3)),
    dequantize("per tensor at 12", "", 12, x=Q, s=constant(np.float32(0.1))),
    dynamic(
        "at 13", *(RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(3)), opset=13
    ),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


@pytest.mark.parametrize(
    "case",
    [
        quantize("mapped scale", "", 12, x=X, s=scales()),
        dequantize("mapped zero point", "", 12, x=Q, s=shared(np.float32(1)), z=bytes_()),
        dynamic("", *(np.ones(3, np.float32) for _ in range(3)), opset=12),
    ],
    ids=str,
)
def test_a_scale_for_every_sample_needs_opset_13(case: Case) -> None:
    assert declines_directly(case) == [(case.name.split()[0], "opset")]
