"""Sums of products: the normal form of what a recurrent cell computes.

``z * h + (1 - z) * n`` and ``n + z * (h - n)`` are both ``z*h + n - z*n``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping

import onnx_ir as ir

__all__ = [
    "Bias",
    "Factor",
    "Gate",
    "MatrixProduct",
    "NotACellError",
    "Sum",
    "Weight",
    "added_up",
    "multiplied",
]

_MOST = 32
"""A cell has fewer products than this."""

_DEEPEST = 3
"""And fewer activations in each other: of an LSTM they are two."""


class NotACellError(Exception):
    """What an iteration computes is not what a recurrent operator computes."""


@dataclasses.dataclass(frozen=True)
class Weight:
    """A part of a matrix that is the same in all iterations, ``[rows, columns]``.

    Attributes:
        value: The matrix, as the body names it.
        rows: The first row, and the one behind the last.
        columns: The same of its columns.
        is_turned: Whether the matrix is stored as ``[columns, rows]``.
    """

    value: ir.Value
    rows: tuple[int, int]
    columns: tuple[int, int]
    is_turned: bool = False


@dataclasses.dataclass(frozen=True)
class MatrixProduct:
    """A product ``operand @ weight``.

    Attributes:
        operand: A value of one iteration, or a sum of products of states.
        weight: The matrix.
    """

    operand: Hashable
    weight: Weight


@dataclasses.dataclass(frozen=True)
class Bias:
    """Columns of a vector that is the same in all iterations; see `Weight`."""

    value: ir.Value
    columns: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Gate:
    """An activation of a sum.

    Attributes:
        op_type: The activation.
        total: The sum.
        depth: How many activations lie in each other.
    """

    op_type: str
    total: Sum
    depth: int

    @classmethod
    def of(cls, op_type: str, total: Sum) -> Gate:
        """Return an activation of a sum.

        Raises:
            NotACellError: More activations lie in each other than those of any cell.
        """
        depth = total.depth + 1
        if depth > _DEEPEST:
            raise NotACellError
        return cls(op_type, total, depth)


Factor = MatrixProduct | Bias | Gate | ir.Value


@dataclasses.dataclass(frozen=True)
class Sum:
    """A sum of products, each with a number in front of it.

    Attributes:
        parts: Pairs of the factors of a product and its number; a product of no factors is 1. The
            state of a cell is a factor as it is.
    """

    parts: frozenset[tuple[frozenset[Factor], float]]

    @classmethod
    def of(cls, *factors: Factor) -> Sum:
        """Return one product."""
        return cls(frozenset([(frozenset(factors), 1.0)]))

    @classmethod
    def number(cls, number: float) -> Sum:
        """Return a number."""
        return cls(frozenset([(frozenset(), number)]))

    def as_dict(self) -> dict[frozenset[Factor], float]:
        """Return for each product its number."""
        return dict(self.parts)

    @property
    def depth(self) -> int:
        """How many activations lie in each other."""
        return max((_depth(factor) for factors, _ in self.parts for factor in factors), default=0)

    def columns(self, start: int, stop: int) -> Sum:
        """Return some columns of a sum.

        Raises:
            NotACellError: They are not those of one gate.
        """
        parts = ((factors, n) for factors, n in self.parts)
        return Sum(frozenset((frozenset(_cut(f, start, stop) for f in fs), n) for fs, n in parts))


def _depth(factor: Factor) -> int:
    if isinstance(factor, MatrixProduct):
        return factor.operand.depth if isinstance(factor.operand, Sum) else 0
    return factor.depth if isinstance(factor, Gate) else 0


def _cut(factor: Factor, start: int, stop: int) -> Factor:
    if isinstance(factor, Gate):
        return dataclasses.replace(factor, total=factor.total.columns(start, stop))
    if isinstance(factor, Bias):
        first = factor.columns[0]
        return Bias(factor.value, (first + start, first + stop))
    if isinstance(factor, MatrixProduct):
        weight, first = factor.weight, factor.weight.columns[0]
        own = dataclasses.replace(weight, columns=(first + start, first + stop))
        return MatrixProduct(factor.operand, own)
    raise NotACellError


def added_up(*sums: tuple[Sum, float]) -> Sum:
    """Return the sum of several, each times a number.

    Raises:
        NotACellError: Products cancel out, which infinite ones do not; or there are very many.
    """
    found: dict[frozenset[Factor], float] = {}
    for one, number in sums:
        for factors, own in one.parts:
            found[factors] = found.get(factors, 0.0) + number * own
    return _checked(found)


def multiplied(one: Sum, other: Sum) -> Sum:
    """Return the product of two sums.

    Raises:
        NotACellError: It holds a square; see `added_up`.
    """
    found: dict[frozenset[Factor], float] = {}
    for mine, a in one.parts:
        for theirs, b in other.parts:
            if mine & theirs:
                raise NotACellError
            factors = mine | theirs
            found[factors] = found.get(factors, 0.0) + a * b
    return _checked(found)


def _checked(found: Mapping[frozenset[Factor], float]) -> Sum:
    parts = {factors: _whole(n) for factors, n in found.items() if n or factors}
    if not parts or len(parts) > _MOST or 0.0 in parts.values():
        raise NotACellError
    return Sum(frozenset(parts.items()))


def _whole(number: float) -> float:
    """Return a number, 1 or -1 for one that differs by rounding: a sixth, six times."""
    return math.copysign(1.0, number) if math.isclose(abs(number), 1.0, rel_tol=2e-7) else number
