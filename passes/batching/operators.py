"""New nodes in the form that the model's opset asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.batching.reshaping import reshape_without_zeros
from passes.builder import Builder
from passes.graphs import constant_value, is_default_domain

__all__ = ["Operators"]


class Operators:
    """Records nodes of ONNX's operators.

    Attributes:
        builder: Records the new nodes.
        opset: Version of ONNX's operators in the model.
    """

    def __init__(self, builder: Builder, opset: int) -> None:
        self.builder = builder
        self.opset = opset

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        """Record a node with one output and return it."""
        return self.builder.op(op_type, inputs, attributes)

    def ints(self, *numbers: int) -> ir.Value:
        """Return a constant int64 vector."""
        return self.builder.ints(*numbers)

    def unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Insert axes of size 1; no axes give the value itself."""
        if not axes:
            return value
        if self.opset >= 13:
            return self.op("Unsqueeze", [value, self.ints(*axes)])
        return self.op("Unsqueeze", [value], {"axes": list(axes)})

    def squeeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Remove axes of size 1; no axes, and axes inserted just before, leave no node."""
        if not axes:
            return value
        before = self.before_unsqueeze(value, axes)
        if before is not None:
            return before
        if self.opset >= 13:
            return self.op("Squeeze", [value, self.ints(*axes)])
        return self.op("Squeeze", [value], {"axes": list(axes)})

    def before_unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value | None:
        """Return what a value was before it gained axes of size 1, None if it did not.

        Args:
            value: A value of the new graph.
            axes: The axes, not negative.
        """
        node = value.producer()
        if node is None or node.op_type != "Unsqueeze" or not is_default_domain(node):
            return None
        given = node.attributes.get_ints("axes", ())
        if len(node.inputs) > 1:
            known = constant_value(node.inputs[1])
            given = () if known is None else tuple(int(axis) for axis in known.reshape(-1))
        return node.inputs[0] if sorted(given or ()) == sorted(axes) else None

    def reduce(
        self, op_type: str, value: ir.Value, axes: Sequence[int], *, keepdims: bool = True
    ) -> ir.Value:
        """Reduce over axes; ``op_type`` is one of the operators ``ReduceX``."""
        if self.opset >= (13 if op_type == "ReduceSum" else 18):
            return self.op(op_type, [value, self.ints(*axes)], {"keepdims": int(keepdims)})
        return self.op(op_type, [value], {"axes": list(axes), "keepdims": int(keepdims)})

    def shape(self, value: ir.Value, start: int, end: int | None = None) -> ir.Value:
        """Return dimensions ``start`` to ``end`` of a value as an int64 vector."""
        if self.opset >= 15:
            attributes = {"start": start, "end": end}
            return self.op("Shape", [value], attributes)
        last = np.iinfo(np.int64).max if end is None else end
        whole = self.op("Shape", [value])
        return self.op("Slice", [whole, self.ints(start), self.ints(int(last))])

    def reshape(self, value: ir.Value, target: ir.Value) -> ir.Value:
        """Reshape to dimensions that are all given; a 0 among them is a dimension of 0."""
        if self.opset >= 14:
            return self.op("Reshape", [value, target], {"allowzero": 1})
        if self.opset >= 11:
            return reshape_without_zeros(self.builder, value, target)
        return self.op("Reshape", [value, target])
