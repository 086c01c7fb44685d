"""ReverseSequence along the axis in which samples differ in length."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged

WHOLE = "s = Shape(x) n = Gather<axis = 0>(s, a) k = Expand(n, w) "
TURN = "y = ReverseSequence<batch_axis = 1, time_axis = 0>({x}, k)"
FIRST, SECOND = constant(np.array([0])), constant(np.array([1]))
TWO = constant(np.array([2]))


def case(name: str, nodes: str, x: Operand, **others: Operand) -> RaggedCase:
    return RaggedCase(name, nodes, {"x": x, **others})


CASES = [
    case("whole", WHOLE + TURN.format(x="x"), ragged(2, lengths=(4, 1, 3)), a=FIRST, w=TWO),
    case(
        "of more axes", WHOLE + TURN.format(x="x"), ragged(2, 3, lengths=(2, 5, 1)), a=FIRST, w=TWO
    ),
    case(
        "whole numbers",
        WHOLE + TURN.format(x="x"),
        ragged(2, dtype=np.int64, lengths=(3, 2, 2)),
        a=FIRST,
        w=TWO,
    ),
    case(
        "along the second axis",
        "t = Transpose(x) s = Shape(t) n = Gather<axis = 0>(s, a) k = Expand(n, w) "
        "y = ReverseSequence<batch_axis = 0, time_axis = 1>(t, k)",
        ragged(2, lengths=(4, 1, 3)),
        a=SECOND,
        w=TWO,
    ),
    case(
        "of one column, as TensorFlow's exporter turns a vector",
        "m = Unsqueeze(x, b) s = Shape(m) n = Gather<axis = 0>(s, a) "
        "r = ReverseSequence<batch_axis = 1, time_axis = 0>(m, n) y = Squeeze(r, b)",
        ragged(lengths=(4, 1, 3)),
        a=FIRST,
        b=SECOND,
    ),
    case(
        "a part of each",
        TURN.format(x="x"),
        ragged(2, lengths=(4, 2, 3)),
        k=shared(np.array([2, 1])),
    ),
    case(
        "parts that differ",
        TURN.format(x="x"),
        ragged(2, lengths=(4, 2, 3)),
        k=mapped(np.array([2, 1]), np.array([1, 2]), np.array([3, 2])),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)
