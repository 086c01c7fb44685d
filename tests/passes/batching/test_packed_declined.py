"""What differs in length, and no rule may take for what happens to fit: it stays per-sample.

Where all samples of a case have one length, a rule that asks less would run, and mix them up.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.bodies import (
    COLUMNS,
    FOUR,
    MATRICES,
    ONE,
    THREE,
    TURNED,
    X,
    ints,
    numbers,
    of,
)
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import prove_declined, ragged

OWN = mapped((4, 3))
WEIGHTS = constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
SQUARE = shared(np.arange(9, dtype=np.float32).reshape(3, 3))
SCORES, KEYS = "u = Transpose(k) s = MatMul(x, u) ", ragged(4, seed=1, lengths=(1, 2, 3))
PRODUCTS = {
    "a flag that is neither 0 nor 1": (
        of("y = Gemm<transB = 2>(x, w)", x=X, w=shared(np.ones((3, 4), np.float32))),
        "Gemm no-rule",
    ),
    "lists of rows, a matrix of each": (
        of("y = MatMul(x, w)", x=ragged(2, 4), w=OWN),
        "MatMul batched-operand",
    ),
    "rows, matrices of each": (
        of("y = MatMul(x, w)", x=X, w=mapped((2, 4, 3))),
        "MatMul batched-operand",
    ),
    "columns, a matrix of each": (
        of(f"{TURNED}y = MatMul(t, w)", x=THREE, w=mapped((3, 2))),
        "MatMul batched-operand",
    ),
    "columns, a vector of each": (
        of(
            f"{TURNED}y = MatMul(t, v)",
            x=ragged(4, dtype=np.int32, lengths=(3, 3, 3)),
            v=mapped((3,), dtype=np.int32),
        ),
        "MatMul batched-operand",
    ),
    "lists of rows, a vector of each": (
        of("y = MatMul(x, v)", x=ragged(2, 4), v=mapped((4,))),
        "MatMul batched-operand",
    ),
    "a matrix of each, rows": (of("y = MatMul(v, x)", x=THREE, v=mapped((2, 3))), "MatMul ragged"),
    "a matrix of each, lists of columns": (
        of(f"t = {COLUMNS}(x) y = MatMul(v, t)", x=ragged(2, 4), v=mapped((3, 4))),
        "MatMul ragged",
    ),
    "integers over the rows": (
        of(f"{TURNED}y = MatMul(t, x)", x=ragged(4, dtype=np.int32)),
        "MatMul batched-operand",
    ),
    "lists over the rows": (
        of(f"t = {COLUMNS}(x) r = {MATRICES}(x) y = MatMul(t, r)", x=ragged(2, 4)),
        "MatMul batched-operand",
    ),
    "rows by rows": (
        of("y = MatMul(x, z)", x=FOUR, z=ragged(4, lengths=(4, 4, 4), seed=1)),
        "MatMul batched-operand",
    ),
    "lists of other ranks": (
        of(
            "y = MatMul(x, z)",
            x=ragged(2, 2, 4, lengths=(2, 2, 2)),
            z=ragged(4, 3, seed=1, lengths=(2, 2, 2)),
        ),
        "MatMul batched-operand",
    ),
    "lists along another axis": (
        of(
            f"z = {MATRICES}(w) y = MatMul(x, z)",
            x=ragged(2, 4, lengths=(2, 2, 2)),
            w=ragged(2, 3, seed=1, lengths=(4, 4, 4)),
        ),
        "MatMul batched-operand",
    ),
    "a zero point that may be one of a row": (
        of(
            "y = MatMulInteger(x, w, z)",
            x=ragged(4, dtype=np.uint8, low=0, high=9),
            w=shared(np.arange(12, dtype=np.uint8).reshape(4, 3)),
            z=shared(np.array([2], np.uint8)),
        ),
        "MatMulInteger ragged",
    ),
    "shared matrices on the right": (
        of("y = MatMul(x, w)", x=X, w=shared(np.ones((2, 4, 3), np.float32))),
        "MatMul ragged",
    ),
    "turned rows of each by a matrix of each": (
        of("t = Transpose(x) y = Gemm<transA = 1>(t, w)", x=X, w=OWN),
        "Gemm batched-operand",
    ),
    "turned rows by what is as long": (
        of("y = Gemm<transA = 1>(x, w)", x=THREE, w=shared(np.ones((3, 2), np.float32))),
        "Gemm ragged",
    ),
    "columns as they are": (
        of("t = Transpose(x) y = Gemm(t, w)", x=THREE, w=shared(np.ones((3, 2), np.float32))),
        "Gemm ragged",
    ),
    "a product scaled": (of("y = Gemm<alpha = 0.5>(x, w)", x=X, w=OWN), "Gemm no-rule"),
    "what is added scaled": (
        of("y = Gemm<beta = 0.5>(x, w, c)", x=X, w=OWN, c=mapped((3,))),
        "Gemm no-rule",
    ),
    "rows of each added": (
        of("y = Gemm(x, w, c)", x=THREE, w=OWN, c=mapped((3, 3))),
        "Gemm ragged",
    ),
    "shared rows added": (of("y = Gemm(x, w, c)", x=THREE, w=OWN, c=SQUARE), "Gemm ragged"),
    "packed rows added": (of("y = Gemm(x, w, c)", x=X, w=OWN, c=ragged(3, seed=3)), "Gemm ragged"),
    "shared rows on a shared product": (
        of("y = Gemm(x, w, c)", x=THREE, w=WEIGHTS, c=SQUARE),
        "Gemm ragged",
    ),
    "a row as long as the samples": (
        of("y = Gemm(x, w, c)", x=THREE, w=WEIGHTS, c=ragged(lengths=(3, 3, 3))),
        "Gemm ragged",
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    case, reason = PRODUCTS[name]
    prove_declined(case, reason)


SUMS = {
    "a sum, turned": (
        of('y = Einsum<equation = "ji,kl->ij">(x, w)', x=X, w=WEIGHTS),
        "Einsum ragged",
    ),
    "a sum, any axes behind": (
        of('y = Einsum<equation = "i...,jk->j...">(x, w)', x=X, w=WEIGHTS),
        "Einsum ragged",
    ),
    "a sum, a diagonal": (
        of('y = Einsum<equation = "ii,kl->i">(x, w)', x=ragged(3, lengths=(3, 3, 3)), w=WEIGHTS),
        "Einsum ragged",
    ),
    "a sum, all of it": (
        of('y = Einsum<equation = "ij,jk->">(x, w)', x=X, w=WEIGHTS),
        "Einsum ragged",
    ),
    "a sum, shared rows": (
        of('y = Einsum<equation = "ij,ik->ijk">(x, w)', x=THREE, w=SQUARE),
        "Einsum ragged",
    ),
    "a sum, a matrix of each": (
        of('y = Einsum<equation = "ij,jk->ik">(x, w)', x=X, w=OWN),
        "Einsum batched-operand",
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    case, reason = SUMS[name]
    prove_declined(case, reason)


TWICE = {
    "logarithms": (of(f"{SCORES}y = LogSoftmax(s)", x=X, k=THREE), "LogSoftmax ragged"),
    "along the rows": (of(f"{SCORES}y = Softmax<axis = 0>(s)", x=X, k=THREE), "Softmax ragged"),
    "first rows": (
        of(f"{SCORES}y, z = TopK<axis = 0>(s, n)", "y z", x=X, k=KEYS, n=ints(0)),
        "TopK ragged",
    ),
    "first integers": (
        of(f"{SCORES}i = Cast<to = 6>(s) y, z = TopK(i, n)", "y z", x=X, k=KEYS, n=ints(1)),
        "TopK ragged",
    ),
    "as many as each says": (
        of(f"{SCORES}y, z = TopK(s, n)", "y z", x=X, k=KEYS, n=numbers(*[[1]] * 3)),
        "TopK ragged",
    ),
    "a row that fits": (
        of(f"{SCORES}y = Add(s, m)", x=X, k=THREE, m=shared(np.ones(3, np.float32))),
        "Add ragged",
    ),
    "another length": (
        of(f"{SCORES}v = Transpose(z) o = MatMul(x, v) y = Add(s, o)", x=X, k=THREE, z=ONE),
        "Add ragged",
    ),
    "one row taken out": (
        of(f"{SCORES}y = Squeeze(s, n)", k=KEYS, x=ONE, n=ints(0)),
        "Squeeze ragged",
    ),
    "a matrix of each": (
        of(f"{SCORES}y = MatMul(s, m)", x=X, k=THREE, m=mapped((3, 2))),
        "MatMul ragged",
    ),
    "on the right": (
        of(f"{SCORES}y = MatMul(u, s)", x=FOUR, k=ragged(4, seed=1, lengths=(4, 4, 4))),
        "MatMul ragged",
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_samples_that_differ_along_two_axes(name: str) -> None:
    case, reason = TWICE[name]
    prove_declined(case, reason)


ATTENTION = (
    f"q = {MATRICES}(x) k = {MATRICES}(z) "
    "y = Attention<q_num_heads = 1, kv_num_heads = 1>(q, {}, {})"
)
SEQUENCE, KEY = ragged(1, 4, lengths=(3, 3, 3)), ragged(1, 4, lengths=(3, 3, 3), seed=1)
SHORT = (2, 1, 3)
SEQUENCES = {
    "values of one size": of(
        ATTENTION.format("k", "v"), opset=23, x=SEQUENCE, z=KEY, v=mapped((1, 3, 4))
    ),
    "keys of one size": of(
        ATTENTION.format("v", "k"), opset=23, x=SEQUENCE, z=KEY, v=mapped((1, 3, 4))
    ),
    "several sequences": of(
        ATTENTION.format("k", "k"),
        opset=23,
        x=ragged(2, 4, lengths=SHORT),
        z=ragged(2, 4, lengths=SHORT, seed=1),
    ),
    "numbers of a place": of(
        f"q = {COLUMNS}(x) y = Attention<q_num_heads = 1, kv_num_heads = 1>(q, q, q)",
        opset=23,
        x=ragged(1, 4, lengths=SHORT),
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_attention(name: str) -> None:
    prove_declined(SEQUENCES[name], "Attention ragged")


def constants(*rows: list[float]) -> list[Operand]:
    return [constant(np.array(row, np.float32)) for row in rows]


def test_statistics_of_the_images_of_a_sample() -> None:
    s, b, m, v = constants([1, 2], [0, 1], [1, 1], [2, 3])
    case = of(
        "y, p, q = BatchNormalization<training_mode = 1>(x, s, b, m, v)",
        x=ragged(2, 4, 6, lengths=SHORT),
        s=s,
        b=b,
        m=m,
        v=v,
    )
    prove_declined(case, "BatchNormalization ragged")


COUNTS = ragged(4, dtype=np.uint8, low=0, high=9)
POSITIONS = ragged(2, dtype=np.int64, low=0, high=1.9, lengths=(1, 1, 1))
OTHERS = {
    "a scaled column, a matrix of each": (
        of(f"{TURNED}y = Gemm(t, w)", x=THREE, w=mapped((3, 2))),
        "Gemm ragged",
    ),
    "a column added to a product by a matrix of each": (
        of("y = Gemm(x, w, c)", x=THREE, w=OWN, c=ragged(lengths=(3, 3, 3))),
        "Gemm ragged",
    ),
    "a matrix of each, lists between": (
        of(
            f"t = {MATRICES}(x) y = MatMul(v, t)",
            x=ragged(2, 4, lengths=(3, 3, 3)),
            v=mapped((4, 3)),
        ),
        "MatMul ragged",
    ),
    "columns by columns": (
        of(f"{TURNED}u = Transpose(z) y = MatMul(t, u)", x=THREE, z=ragged(3, lengths=(3, 3, 3))),
        "MatMul batched-operand",
    ),
    "a shared matrix of integers, columns": (
        of(
            f"{TURNED}y = MatMulInteger(w, t)",
            x=COUNTS,
            w=shared(np.arange(12, dtype=np.uint8).reshape(3, 4)),
        ),
        "MatMulInteger ragged",
    ),
    "a shared vector, columns": (
        of(f"{TURNED}y = MatMul(w, t)", x=X, w=shared(np.ones(4, np.float32))),
        "MatMul ragged",
    ),
    "a shared matrix, rows": (
        of("y = MatMul(w, x)", x=THREE, w=shared(np.ones((2, 3), np.float32))),
        "MatMul ragged",
    ),
    "bounds of each along the rows": (
        of(
            "y = Slice(x, s, e, a)",
            x=X,
            s=numbers([0], [1], [0]),
            e=numbers([2], [3], [2]),
            a=ints(1),
        ),
        "Slice ragged",
    ),
    "packed coordinates": (
        of("u = Transpose(i) y = GatherND(x, u)", x=ragged(4, lengths=SHORT), i=POSITIONS),
        "GatherND unknown-shape",
    ),
    "whole samples": (
        of("y = GatherND(x, i)", x=X, i=constant(np.zeros((2, 0), np.int64))),
        "GatherND unknown-shape",
    ),
    "a scale of each row": (
        of("y = QuantizeLinear<axis = 0>(x, s)", x=THREE, s=constant(np.float32([0.1, 0.2, 0.3]))),
        "QuantizeLinear ragged",
    ),
    "a border of each along other axes": (
        of(
            "y = Pad(x, p, v)",
            x=X,
            p=ints(0, 1, 0, 1),
            v=numbers(np.float32(1), np.float32(2), np.float32(3)),
        ),
        "Pad ragged",
    ),
    "rows for each length that is one": (
        of(
            "n = Shape(x) y = Expand(w, n)",
            x=ragged(lengths=(1, 3, 1)),
            w=shared(np.ones(3, np.float32)),
        ),
        "Expand ragged",
    ),
    "a shape that may reach the rows": (
        of("y = Expand(x, s)", x=X, s=shared(np.array([1, 4]))),
        "Expand ragged",
    ),
    "one row less than there is": (
        of(
            "h = Slice(x, none, one) n = Shape<end = 1>(h) m = Sub(n, one) "
            "s = Concat<axis = 0>(m, four) y = Expand(x, s)",
            x=ragged(4, lengths=(1, 1, 1)),
            none=ints(0),
            one=ints(1),
            four=ints(4),
        ),
        "Expand ragged",
    ),
    "places of a maximum": (
        of(
            "y, i = MaxPool<kernel_shape = [2, 2]>(x)",
            "y i",
            x=ragged(2, 5, 5, lengths=(1, 2, 3)),
        ),
        "MaxPool no-rule",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    case, reason = OTHERS[name]
    prove_declined(case, reason)
