"""Bodies over samples that differ in length, each in one line, and samples for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.passes.batching.harness import Operand, constant, mapped
from tests.passes.batching.ragged import RaggedCase, ragged

TURNED = "t = Transpose(x) "
MATRICES, COLUMNS = "Transpose<perm = [1, 0, 2]>", "Transpose<perm = [1, 2, 0]>"
X, ONE = ragged(4), ragged(4, lengths=(1, 1, 1))
THREE, FOUR = ragged(4, lengths=(3, 3, 3)), ragged(4, lengths=(4, 4, 4))


def of(nodes: str, outputs: str = "y", opset: int = 18, **operands: Any) -> RaggedCase:
    """Make a case that its nodes name."""
    return RaggedCase(nodes, nodes, operands, outputs.split(), opset)


def ints(*numbers: int) -> Operand:
    """Make a constant vector."""
    return constant(np.array(numbers, np.int64))


def numbers(*samples: Any) -> Operand:
    """Make an operand of one value for each sample."""
    return mapped(*(np.array(sample) for sample in samples))


def places(*rest: int, high: float, lengths: tuple[int, ...] = (2, 0, 3)) -> Operand:
    """Make an operand of positions from 0 to the highest, which differs in length."""
    return ragged(*rest, dtype=np.int64, low=0, high=high + 0.9, lengths=lengths)
