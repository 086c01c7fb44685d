"""Masks of attention within samples that differ in length, made by a sample's own length."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import Operand, constant, mapped
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

SIZE = "d = Shape(k) n = Slice(d, zero, one) m = Concat<axis = 0>(n, n) "
SCORES = "t = Transpose(k) s = MatMul(q, t) "
PRODUCT = "w = Softmax<axis = -1>(b) y = MatMul(w, v)"
MASKS = {
    "ones above": "c = ConstantOfShape<value = float[1] {1}>(m) u = Trilu(c, above) "
    "g = Greater(u, none) b = Where(g, less, s) ",
    "what is added": "c = ConstantOfShape<value = float[1] {-9}>(m) u = Trilu(c, above) "
    "b = Add(s, u) ",
    "what is kept": "c = ConstantOfShape<value = float[1] {1}>(m) u = Trilu<upper = 0>(c) "
    "g = Equal(u, none) b = Where(g, less, s) ",
    "a diagonal of each": "c = ConstantOfShape<value = float[1] {1}>(m) u = Trilu(c, own) "
    "g = Greater(u, none) b = Where(g, less, s) ",
}
LENGTHS = {"some none": (2, 0, 3), "one long": (1, 9, 2), "one each": (1, 1, 2)}


def case(mask: str, lengths: tuple[int, ...], keys: tuple[int, ...] | None = None) -> RaggedCase:
    operands: dict[str, Operand] = {
        "q": ragged(4, lengths=lengths),
        "k": ragged(4, lengths=keys or lengths, seed=1),
        "v": ragged(5, lengths=lengths, seed=2),
        "zero": constant(np.array([0])),
        "one": constant(np.array([1])),
        "above": constant(np.array(1)),
        "none": constant(np.float32(0)),
        "less": constant(np.float32(-9)),
        "own": mapped(np.array(1), np.array(2), np.array(0)),
    }
    nodes = SIZE + SCORES + MASKS[mask] + PRODUCT
    used = {name: x for name, x in operands.items() if f"{name})" in nodes or f"{name}," in nodes}
    return RaggedCase(mask, nodes, used, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lacks", [("Loop", "Scan"), ("Loop", "Scan", "If")], ids=["", "no If"])
def test_it_equals_the_body_run_alone(
    mask: str, lengths: tuple[int, ...], batch: int, lacks: tuple[str, ...]
) -> None:
    prove_ragged(case(mask, lengths), batch, lacks=lacks)


CLIPPED = """t = Slice(x, zero, e, zero) m = Concat<axis = 0>(e, e) u = Transpose(t)
  c = ConstantOfShape<value = float[1] {1}>(m) a = Trilu(c) s = MatMul(t, u) b = Mul(s, a)
  y = MatMul(b, v)"""


def test_one_row_of_a_slice_that_ends_early_meets_a_mask_of_any_size() -> None:
    operands = {
        "x": ragged(2, lengths=(4, 1, 4)),
        "e": mapped(np.array([2]), np.array([3]), np.array([4])),
        "v": ragged(5, lengths=(2, 3, 4), seed=2),
        "zero": constant(np.array([0])),
    }
    prove_ragged(RaggedCase("", CLIPPED, operands), 3, lacks=("Loop", "Scan"))
