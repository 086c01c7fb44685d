"""What the cases of samples that stay apart are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.passes.batching.apart import ENGINES, Misplaced
from tests.passes.batching.harness import Operand, mapped, shared
from tests.passes.batching.ragged import RaggedCase, ragged

__all__ = [
    "DATA",
    "LENGTHS",
    "ROWS",
    "SQUARE",
    "beyond",
    "both",
    "floats",
    "made",
    "one",
    "places",
]


def beyond(size: int) -> tuple[int, ...]:
    """Return numbers that are not positions along an axis of this size, by one and by more."""
    return (size, -size - 1, size + 1, 2 * size, -2 * size)


def places(*numbers: Any, kind: str = "mapped", dtype: Any = np.int64) -> Operand:
    """Make an operand of places in range: one value for all samples, or one for each."""
    return Operand(kind, tuple(np.array(n, dtype) for n in numbers))


def both(numbers: Any, dtype: Any = np.int64) -> list[Operand]:
    """Make such an operand of one value, by sample and for all of them."""
    return [places(*[numbers] * 3, dtype=dtype), places(numbers, kind="shared", dtype=dtype)]


def floats(*shape: int) -> Operand:
    """Make samples of small numbers that are all the same."""
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return mapped(array, array, array)


def made(
    op_type: str,
    name: str,
    bad: Sequence[Any],
    attributes: str = "",
    *,
    opset: int = 18,
    text: str = "",
    label: str = "",
    outputs: Sequence[str] = ("y",),
    engines: Sequence[str] = tuple(ENGINES),
    far: bool = True,
    **operands: Operand,
) -> Misplaced:
    """Make a case: operand ``i`` holds the places."""
    body = text or f"y = {op_type}{attributes}({', '.join(operands)})"
    case = RaggedCase(label or attributes, body, operands, outputs, opset=opset)
    return Misplaced(op_type, name, case, bad, engines=engines, far=far)


def one(number: int) -> Operand:
    """Make an operand of one number for all samples."""
    return shared(np.array([number]))


LENGTHS = (2, 3, 2)
SQUARE, ROWS = floats(4, 3), ragged(3, lengths=LENGTHS)
DATA = {"stacked": SQUARE, "packed": ROWS, "shared": shared(SQUARE.first)}
