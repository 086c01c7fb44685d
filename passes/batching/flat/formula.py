"""Formulas over tensors, written as such: each operation records one node."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators

__all__ = ["Formula", "added", "integers", "reals"]


class Formula:
    """A tensor with the operators of arithmetic; a plain number takes its element type.

    Attributes:
        value: The tensor.
        dtype: Its element type.
    """

    def __init__(self, ops: Operators, value: ir.Value, dtype: ir.DataType) -> None:
        self.value, self.dtype = value, dtype
        self._ops = ops

    def _of(self, other: Formula | float) -> ir.Value:
        if isinstance(other, Formula):
            return other.value
        return self._ops.builder.constant(np.array(other, self.dtype.numpy()))

    def _op(self, op_type: str, *others: Formula | float) -> Formula:
        inputs = [self.value, *map(self._of, others)]
        return Formula(self._ops, self._ops.op(op_type, inputs), self.dtype)

    def __add__(self, other: Formula | float) -> Formula:
        return self._op("Add", other)

    def __rsub__(self, other: float) -> Formula:
        return Formula(self._ops, self._of(other), self.dtype) - self

    def __sub__(self, other: Formula | float) -> Formula:
        return self._op("Sub", other)

    def __mul__(self, other: Formula | float) -> Formula:
        return self._op("Mul", other)

    def __truediv__(self, other: Formula | float) -> Formula:
        return self._op("Div", other)

    def __rtruediv__(self, other: float) -> Formula:
        return Formula(self._ops, self._of(other), self.dtype) / self

    def __mod__(self, other: Formula | float) -> Formula:
        """Return what is left of whole numbers, with the sign of the divisor."""
        return self._op("Mod", other)

    def min(self, other: Formula | float) -> Formula:
        """Return the lesser of two numbers."""
        return self._op("Min", other)

    def max(self, other: Formula | float) -> Formula:
        """Return the greater of two numbers."""
        return self._op("Max", other)

    def floor(self) -> Formula:
        """Return the greatest whole number that is not greater."""
        return self._op("Floor")

    def ceil(self) -> Formula:
        """Return the least whole number that is not less."""
        return self._op("Ceil")

    def abs(self) -> Formula:
        """Return the distance from zero."""
        return self._op("Abs")

    def sign(self) -> Formula:
        """Return -1, 0 or 1."""
        return self._op("Sign")

    def compare(self, op_type: str, other: Formula | float) -> Formula:
        """Return the result of ``Less``, ``Equal`` and their kin."""
        found = self._op(op_type, other)
        return Formula(self._ops, found.value, ir.DataType.BOOL)

    def both(self, other: Formula) -> Formula:
        """Return whether two conditions hold."""
        return self._op("And", other)

    def either(self, other: Formula) -> Formula:
        """Return whether at least one of two conditions holds."""
        return self._op("Or", other)

    def where(self, yes: Formula | float, no: Formula | float) -> Formula:
        """Return one of two numbers by this condition; one of them at least is a tensor."""
        like = yes if isinstance(yes, Formula) else no
        assert isinstance(like, Formula)
        picked = self._ops.op("Where", [self.value, like._of(yes), like._of(no)])
        return Formula(self._ops, picked, like.dtype)

    def cast(self, dtype: ir.DataType) -> Formula:
        """Return the numbers in another element type."""
        if dtype == self.dtype:
            return self
        return Formula(self._ops, self._ops.op("Cast", [self.value], {"to": int(dtype)}), dtype)

    def unsqueeze(self, *axes: int) -> Formula:
        """Return the tensor with new axes of size 1."""
        return Formula(self._ops, self._ops.unsqueeze(self.value, axes), self.dtype)

    def on(self, change: Callable[[ir.Value], ir.Value]) -> Formula:
        """Return the tensor behind another operator that keeps the element type."""
        return Formula(self._ops, change(self.value), self.dtype)


def reals(ops: Operators, value: ir.Value) -> Formula:
    """Return float numbers."""
    return Formula(ops, value, ir.DataType.FLOAT)


def integers(ops: Operators, value: ir.Value) -> Formula:
    """Return int64 numbers."""
    return Formula(ops, value, ir.DataType.INT64)


def added(terms: Sequence[Formula]) -> Formula:
    """Return the sum of terms from left to right; they were recorded before it.

    onnxruntime goes from a result back to what it reads, and takes first what was recorded last.
    So it takes the sum so far, and need not hold all terms at once.
    """
    return functools.reduce(operator.add, terms)
