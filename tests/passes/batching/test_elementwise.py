"""Operators that work on each element by itself, and broadcasting ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import Case, constant, mapped, prove, shared

CASES = [
    Case("relu", "y = Relu(x)", {"x": mapped((3, 4))}, rtol=0, atol=0),
    Case("relu rank 0", "y = Relu(x)", {"x": mapped(())}),
    Case("relu symbolic", "y = Relu(x)", {"x": mapped((3, 4))}, symbolic=True),
    Case("add both", "y = Add(x, z)", {"x": mapped((3, 4)), "z": mapped((3, 4), seed=1)}),
    Case("add ranks 1 and 2", "y = Add(x, z)", {"x": mapped((4,)), "z": mapped((3, 4))}),
    Case("add rank 0 and 2", "y = Add(z, x)", {"x": mapped(()), "z": mapped((3, 4))}),
    Case("add shared of higher rank", "y = Add(x, w)", {"x": mapped((4,)), "w": shared(np.ones((3, 4), np.float32))}),
    Case("add constant", "y = Add(w, x)", {"x": mapped((3, 4)), "w": constant(np.ones(4, np.float32))}),
    Case(
        "where per-sample scalar condition",
        "y = Where(c, x, z)",
        {"c": mapped((), dtype=np.bool_), "x": mapped((2, 3)), "z": mapped((3,))},
    ),
    Case("max of one", "y = Max(x)", {"x": mapped((3,))}),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)
