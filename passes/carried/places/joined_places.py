"""One scatter that joins the updates of all iterations to a tensor, where places may be equal.

The threads of onnxruntime's ScatterND lose some of the updates that go to one place, so rows are
joined by ScatterElements. Places along two axes become those of one: ``[i, j]`` in a tensor
``[4, 5]`` is row ``5 * i + j`` of 20.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import FLOATS
from passes.graph.builder import Builder

__all__ = ["Places", "as_rows"]


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the rows of all iterations are joined to a tensor.

    Attributes:
        builder: Records what joins them.
        whole: The shape of the tensor.
        flat: Its shape with one axis in the place of those along which places are named; None
            where that is one axis already.
        rows: The shape of the rows, ``[n, ..]``.
        numbers: For each number of a row the place along the first axis.
    """

    builder: Builder
    whole: ir.Value
    flat: ir.Value | None
    rows: ir.Value
    numbers: ir.Value

    @classmethod
    def of(
        cls,
        builder: Builder,
        tensor: ir.Value,
        rank: int,
        indices: ir.Value,
        named: int,
        *,
        is_list: bool,
    ) -> Places:
        """Record the places that a ScatterND joins to.

        Args:
            builder: Records them.
            tensor: What is joined to.
            rank: Its rank.
            indices: The places, ``[..., named]``.
            named: Along how many axes of the tensor they are.
            is_list: Whether they are ``[n, named]``.
        """
        whole, flat = builder.op("Shape", [tensor]), None
        behind = rank - named
        rest = [builder.shape(tensor, named)] if behind else []
        if named > 1:
            indices, size = as_rows(builder, indices, whole, named)
            flat = builder.op("Concat", [size, *rest], {"axis": 0}) if behind else size
        if not is_list:
            indices = builder.op("Reshape", [indices, builder.ints(-1, 1)])
        count = builder.shape(indices, 0, 1)
        if not behind:
            return cls(builder, whole, flat, count, builder.op("Reshape", [indices, count]))
        rows = builder.op("Concat", [count, *rest], {"axis": 0})
        if behind > 1:
            indices = builder.op("Unsqueeze", [indices, builder.ints(*range(2, behind + 1))])
        return cls(builder, whole, flat, rows, builder.op("Expand", [indices, rows]))

    def join(
        self, tensor: ir.Value, updates: ir.Value, reduction: str, dtype: ir.DataType | None
    ) -> ir.Value:
        """Record what Add, Mul, Max or Min computes of what stands at each place, and the rows.

        Args:
            tensor: What is joined to.
            updates: The rows that are joined to it.
            reduction: How.
            dtype: The type of their elements.
        """
        if reduction in ("max", "min") and dtype is not None and dtype in FLOATS:
            return self._join_extremes(tensor, updates, reduction, dtype)
        return self.scatter(tensor, updates, reduction)

    def scatter(self, tensor: ir.Value, updates: ir.Value, reduction: str) -> ir.Value:
        """Record what a ScatterND with a reduction computes; see `join`."""
        builder, rows = self.builder, tensor
        if self.flat is not None:
            rows = builder.op("Reshape", [tensor, self.flat], {"allowzero": 1})
        new = builder.op("Reshape", [updates, self.rows], {"allowzero": 1})
        attributes = {"axis": 0, "reduction": reduction}
        joined = builder.op("ScatterElements", [rows, self.numbers, new], attributes)
        if self.flat is None:
            return joined
        return builder.op("Reshape", [joined, self.whole], {"allowzero": 1})

    def _join_extremes(
        self, tensor: ir.Value, updates: ir.Value, reduction: str, dtype: ir.DataType
    ) -> ir.Value:
        """Record the largest or the least floats at each place, NaN where one of them is.

        A scatter compares numbers, and may leave any of two where one is NaN; Max and Min do not.
        """
        builder = self.builder
        worst = builder.constant(np.array(_WORST[reduction], dtype.numpy()))
        marks, clean = [], []
        for value in (tensor, updates):
            spoilt = builder.op("IsNaN", [value])
            marks.append(builder.op("Cast", [spoilt], {"to": int(ir.DataType.INT32)}))
            clean.append(builder.op("Where", [spoilt, worst, value]))
        joined = self.scatter(clean[0], clean[1], reduction)
        found = self.scatter(marks[0], marks[1], "max")
        spoilt = builder.op("Greater", [found, builder.constant(np.zeros((), np.int32))])
        nan = builder.constant(np.array(np.nan, dtype.numpy()))
        return builder.op("Where", [spoilt, nan, joined])


_WORST = {"max": -np.inf, "min": np.inf}


def as_rows(
    builder: Builder, indices: ir.Value, shape: ir.Value, named: int
) -> tuple[ir.Value, ir.Value]:
    """Return the numbers of rows that places along several axes are, and how many rows there are.

    A place outside of the tensor becomes one outside of the rows, which is an error.

    Args:
        builder: Records them.
        indices: The places, ``[..., named]``.
        shape: The shape of the tensor.
        named: Along how many axes of it they are.
    """
    zero = builder.scalar(0)
    lead = builder.op("Slice", [shape, builder.ints(0), builder.ints(named)])
    is_negative = builder.op("Less", [indices, zero])
    at = builder.op("Where", [is_negative, builder.op("Add", [indices, lead]), indices])
    is_low = builder.op("Less", [at, zero])
    is_high = builder.op("GreaterOrEqual", [at, lead])
    is_outside = builder.op("Or", [is_low, is_high])
    if named == 1:
        return builder.op("Where", [is_outside, lead, at]), lead
    strides = [builder.ints(1)]
    for axis in range(named - 1, -1, -1):
        dim = builder.op("Slice", [lead, builder.ints(axis), builder.ints(axis + 1)])
        strides.insert(0, builder.op("Mul", [strides[0], dim]))
    size, *strides = strides
    at = builder.op("Where", [is_outside, size, at])
    steps = builder.op("Concat", strides, {"axis": 0})
    rows = builder.op("ReduceSum", [builder.op("Mul", [at, steps]), builder.ints(-1)])
    return rows, size
