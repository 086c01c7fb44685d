"""Products of matrices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.runtimes import SidestepDefectsPass
from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    fused_model,
    mapped,
    prove,
    shared,
)


def held(kind: str, shape: tuple[int, ...], seed: int) -> Operand:
    """Draw floats that are mapped, shared or constant."""
    drawn = mapped(shape, seed=seed)
    return drawn if kind == "mapped" else Operand(kind, drawn.samples[:1])


def whole(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind == "u" else -50
    return mapped(*(np.asarray(rng.integers(low, 100, shape), dtype) for _ in range(3)))


def scales(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(np.asarray(rng.random(shape) / 64 + 0.01, dtype) for _ in range(3)))


# MatMul

SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (2, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
]
MIXES = [mix for mix in itertools.product(("mapped", "shared"), repeat=2) if "mapped" in mix]


def matmul(mix: tuple[str, str], shapes: Any, **more: Any) -> Case:
    given = {n: held(mix[i], shapes[i], i) for i, n in enumerate("ab")}
    name = f"MatMul of {mix[0]} {shapes[0]} and {mix[1]} {shapes[1]}"
    return Case(name, "y = MatMul(a, b)", given, **more)


# Gemm


def gemm(name: str, attributes: str = "", **operands: Operand) -> Case:
    text = f"y = Gemm{attributes}({', '.join(operands)})"
    return Case(f"Gemm {name}", text, operands, symbolic="symbolic" in name)


A, B = mapped((2, 3)), mapped((3, 4), seed=1)
AT, BT = mapped((3, 2)), mapped((4, 3), seed=1)
SCALED = "<alpha = 0.5, beta = 2.0>"
ROW, FULL = mapped((4,), seed=2), mapped((2, 4), seed=2)
GEMMS = [
    gemm("rows", a=A, b=shared(B.first)),
    gemm("rows, symbolic", a=A, b=shared(B.first), c=shared(ROW.first)),
    gemm("rows turned", "<transA = 1>", a=AT, b=constant(B.first)),
    gemm("rows turned, symbolic", "<transA = 1, transB = 1>", a=AT, b=shared(BT.first)),
    gemm("constant row of bias", "<transB = 1>", a=A, b=constant(BT.first), c=constant(ROW.first)),
    gemm("bias of rank 0", SCALED, a=A, b=shared(B.first), c=constant(np.float32(3))),
    gemm("bias [1, N]", SCALED, a=A, b=shared(B.first), c=shared(ROW.first[None])),
    gemm("bias [M, 1]", SCALED, a=A, b=shared(B.first), c=shared(FULL.first[:, :1])),
    gemm("bias [M, N]", SCALED, a=A, b=shared(B.first), c=shared(FULL.first)),
    gemm("mapped bias [N]", SCALED, a=A, b=shared(B.first), c=ROW),
    gemm("mapped bias [M, N]", a=A, b=shared(B.first), c=FULL),
    gemm("mapped bias of rank 0", SCALED, a=A, b=shared(B.first), c=mapped((), seed=3)),
    gemm("both mapped", SCALED, a=A, b=B),
    gemm("both mapped and turned", "<transA = 1, transB = 1>", a=AT, b=BT, c=shared(FULL.first)),
    gemm("right mapped", a=shared(A.first), b=B, c=shared(ROW.first)),
    gemm("right mapped and turned", "<transB = 1, beta = 3.0>", a=constant(A.first), b=BT, c=ROW),
    gemm("all mapped, symbolic", a=A, b=B, c=FULL),
    gemm("bias alone mapped", SCALED, a=shared(A.first), b=shared(B.first), c=FULL),
]

# Integers

U, V = whole(2, 3), whole(3, 4, seed=1)
STACK = whole(5, 2, 3)
POINT = np.array(7, np.uint8)


def integers(name: str, **operands: Operand) -> Case:
    text = f"y = MatMulInteger({', '.join(operands)})"
    return Case(f"MatMulInteger {name}", text, operands, rtol=0, atol=0)


INTEGERS = [
    integers("left mapped", a=U, b=shared(V.first)),
    integers("right mapped", a=shared(U.first), b=V),
    integers("both mapped", a=U, b=V),
    integers("of int8", a=whole(2, 3, dtype=np.int8), b=shared(whole(3, 4, dtype=np.int8).first)),
    integers("shared points", a=U, b=shared(V.first), az=constant(POINT), bz=shared(POINT)),
    integers("points of one element", a=U, b=V, az=shared(POINT[None]), bz=shared(POINT[None])),
    integers(
        "shared columns", a=U, b=shared(V.first), az=constant(POINT), bz=shared(whole(4).first)
    ),
    integers(
        "one row of points",
        a=U,
        b=shared(V.first),
        az=shared(POINT),
        bz=shared(whole(4).first[None]),
    ),
    integers(
        "rank 3, one row",
        a=STACK,
        b=shared(V.first),
        az=shared(POINT),
        bz=shared(whole(4).first[None]),
    ),
    integers(
        "a row of a mapped matrix", a=U, b=V, az=shared(POINT), bz=shared(whole(4).first[None])
    ),
    integers(
        "columns of a mapped matrix", a=U, b=V, az=constant(POINT), bz=shared(whole(4).first)
    ),
    integers("mapped points", a=U, b=shared(V.first), az=whole(), bz=whole(seed=1)),
    integers("mapped columns", a=U, b=V, az=whole(), bz=whole(4)),
    integers("points alone mapped", a=shared(U.first), b=shared(V.first), az=whole(), bz=whole()),
    integers("rank 3", a=STACK, b=shared(V.first), az=constant(POINT)),
    integers("rank 3 right", a=shared(U.first), b=whole(5, 3, 4)),
    integers("vector on the left", a=whole(3), b=shared(V.first), az=constant(POINT)),
    integers("vector on the right", a=shared(U.first), b=whole(3), az=constant(POINT)),
]

NAMES = ("a", "as_", "az", "b", "bs", "bz", "ys", "yz")


def quantized(name: str, given: Mapping[str, Operand], opset: int = 18) -> Case:
    defaults = {
        "a": U,
        "as_": constant(np.float32(0.01)),
        "az": constant(POINT),
        "b": shared(V.first),
        "bs": constant(np.float32(0.02)),
        "bz": constant(POINT),
        "ys": constant(np.float32(0.1)),
        "yz": constant(POINT),
    }
    operands = {**defaults, **given}
    text = f"y = QLinearMatMul({', '.join(NAMES)})"
    return Case(f"QLinearMatMul {name}", text, operands, opset=opset)


I8 = np.array(3, np.int8)
SIGNED = {"az": constant(I8), "bz": constant(I8), "yz": constant(I8)}
HALF = {n: constant(np.array([0.05], np.float16)) for n in ("as_", "bs", "ys")}
QUANTIZED = [
    quantized("left mapped", {}),
    quantized("right mapped", {"a": shared(U.first), "b": V}),
    quantized("both mapped", {"b": V}),
    quantized("rank 3", {"a": STACK, "b": whole(5, 3, 4)}),
    quantized("rank 3 times rank 2", {"a": STACK, "b": V}),
    quantized(
        "int8",
        {"a": whole(2, 3, dtype=np.int8), "b": whole(3, 4, dtype=np.int8, seed=2), **SIGNED},
    ),
    quantized(
        "scales of one element", {"as_": shared(scales(1).first), "ys": shared(scales(1).first)}
    ),
    quantized("shared columns", {"bs": shared(scales(4).first), "bz": shared(whole(4).first)}),
    quantized(
        "one row", {"bs": shared(scales(4).first[None]), "bz": shared(whole(4).first[None])}
    ),
    quantized("columns of a mapped matrix", {"b": V, "bs": shared(scales(4).first)}),
    quantized("mapped left scale", {"as_": scales()}),
    quantized("mapped right scale", {"bs": scales(), "b": V}),
    quantized("mapped scale of the result", {"ys": scales()}),
    quantized("mapped left point", {"az": whole()}),
    quantized("mapped point of the result", {"yz": whole(seed=2)}),
    quantized("mapped points", {"az": whole(), "bz": whole(seed=1), "yz": whole(seed=2)}),
    quantized("float16 scales", {"a": U, "b": V, **HALF}, 21),
]

# The others


def einsum(equation: str, **operands: Operand) -> Case:
    text = f'y = Einsum<equation = "{equation}">({", ".join(operands)})'
    kinds = " and ".join(x.kind for x in operands.values())
    return Case(f"Einsum {equation} of {kinds}", text, operands)


S3 = mapped((3, 3))
OTHERS = [
    einsum("ij, jk -> ik", a=A, b=B),
    einsum("ij,jk->ik", a=A, b=shared(B.first)),
    einsum("ij,jk", a=shared(A.first), b=B),
    einsum("ij->", a=A),
    einsum("ii->i", a=S3),
    einsum("ii", a=S3),
    einsum("...ij,...jk->...ik", a=mapped((2, 2, 3)), b=shared(B.first)),
    einsum("...ij,jk", a=mapped((2, 2, 3)), b=B),
    einsum("A,B->AB", a=mapped((2,)), b=mapped((3,))),
    einsum("i,ij,j", a=mapped((2,)), b=A, c=shared(np.ones(3, np.float32))),
    Case("Det", "y = Det(x)", {"x": S3}),
    Case("Det of many", "y = Det(x)", {"x": mapped((2, 3, 3))}, symbolic=True, opset=22),
]

MATMULS = [
    *(matmul(mix, shapes) for mix in MIXES for shapes in SHAPES),
    *(matmul(mix, ((2, 3), (3, 4)), symbolic=True) for mix in MIXES),
    matmul(("mapped", "constant"), ((3,), (3, 4))),
    matmul(("constant", "mapped"), ((2, 3), (3,))),
]


@BATCHES
@pytest.mark.parametrize("case", [*MATMULS, *GEMMS, *INTEGERS, *OTHERS], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


@BATCHES
@pytest.mark.parametrize("case", QUANTIZED, ids=str)
def test_quantized_product_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


TURNED = [
    Case(
        f"MatMul of {name} and a shared matrix",
        f"t = Transpose<perm = [1, 0]>(a) {between} d = MatMul({left}, b) y = Neg(d)",
        {"a": mapped((3, 2)), "b": kind(B.first)},
        symbolic=symbolic,
    )
    for name, between, left in (
        ("a transposed matrix", "", "t"),
        ("a transposed matrix, cast", "c = Cast<to = 1>(t)", "c"),
    )
    for kind in (shared, constant)
    for symbolic in (False, True)
]


@pytest.mark.quick
@BATCHES
@pytest.mark.parametrize("case", TURNED, ids=str)
def test_products_of_transposed_matrices(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    matmul(("mapped", "shared"), ((2, 3), (3, 4)), opset=10),
    matmul(("mapped", "mapped"), ((3,), (3,)), opset=12),
    Case("Gemm at 7", "y = Gemm(a, b, c)", {"a": A, "b": shared(B.first), "c": ROW}, opset=11),
    Case("Gemm without bias", "y = Gemm(a, b)", {"a": A, "b": B}, opset=11),
    Case("MatMulInteger at 10", "y = MatMulInteger(a, b)", {"a": U, "b": V}, opset=10),
    Case("Einsum at 12", 'y = Einsum<equation = "ij,jk">(a, b)', {"a": A, "b": B}, opset=12),
    Case("Det at 11", "y = Det(x)", {"x": S3}, opset=11),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (quantized("mapped scale of rank 2", {"ys": scales(2, 1)}), "no-rule"),
        (
            quantized("vector and mapped scale", {"a": whole(3), "as_": scales()}),
            "batched-operand",
        ),
    ],
    ids=str,
)
def test_rule_declines(case: Case, code: str) -> None:
    assert decline_of(case) == [("QLinearMatMul", code)]


@pytest.mark.parametrize("name", ["shared columns", "points of one element", "one row of points"])
def test_an_integer_product_is_one(name: str) -> None:
    (case,) = (case for case in INTEGERS if case.name == f"MatMulInteger {name}")
    proto, _ = fused_model(case)
    operators = [node.op_type for node in proto.graph.node]
    assert "MatMulInteger" in operators
    assert "MatMul" not in operators


def test_a_product_by_a_shared_matrix_meets_no_defect() -> None:
    """Without samples onnxruntime 1.31 does not broadcast the matrix."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] a, float[B,3,4] b) => (float[B,2,4] y) {
            bs = SplitToSequence <axis = 0, keepdims = 0> (b)
            ys = SequenceMap (bs) <body = m (e) => (r) { r = MatMul (a, e) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert FuseSequenceMapPass()(model).modified
    assert not SidestepDefectsPass()(model).modified


UNSQUEEZED = [
    Case(
        name,
        "u = Unsqueeze(a, z) y = MatMul(u, b)",
        {"a": a, "z": constant(np.array([0])), "b": b},
    )
    for name, a, b in (
        ("a row by a shared matrix", mapped((3,)), shared(B.first)),
        ("a row by a matrix of each", mapped((3,)), mapped((3, 4))),
        ("a row by several matrices", mapped((3,)), shared(np.ones((2, 3, 4), np.float32))),
        ("a number by a row", mapped(()), shared(np.ones((1, 4), np.float32))),
        ("several rows by a matrix", mapped((2, 3)), shared(B.first)),
    )
]


@BATCHES
@pytest.mark.parametrize("case", UNSQUEEZED, ids=str)
def test_products_of_what_becomes_a_row(case: Case, batch: int) -> None:
    prove(case, batch)
