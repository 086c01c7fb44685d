"""Samples of different length whose length another operand, or a Squeeze, fixes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def met(name: str, body: str, lengths: tuple[int, ...], **operands: object) -> RaggedCase:
    """Return a case of samples of so many rows of 4 numbers."""
    return RaggedCase(name, body, {"x": ragged(4, lengths=lengths), **operands})


CASES = [
    met("one row or all", "y = Add(x, z)", (3, 1, 3), z=shared(ROWS)),
    met("one row each", "y = Mul(z, x)", (1, 1, 1), z=shared(ROWS)),
    met("of higher rank", "y = Sub(x, z)", (3, 3, 1), z=shared(ROWS[None].repeat(2, 0))),
    met("rows of each sample", "y = Add(x, z)", (3, 1, 3), z=mapped((3, 4))),
    met("columns", "t = Transpose(x) y = Add(t, z)", (3, 1, 3), z=shared(ROWS[:1, :3])),
    met("two operands", "y = Max(x, z, w)", (1, 3, 3), z=shared(ROWS), w=mapped((4,))),
    met("squeezed", "a = Constant<value_ints = [0]>() y = Squeeze(x, a)", (1, 1, 1)),
    met(
        "squeezed behind",
        "t = Transpose(x) a = Constant<value_ints = [-1]>() y = Squeeze(t, a)",
        (1, 1, 1),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)
