"""Moves of axes, the batch axis among them, as new nodes.

The nodes have their newest form; what an older opset has for it is written by
`passes.graph.opsets.to_opset_form`.

Samples ``[3, 4]`` stacked are ``[B, 3, 4]``: axis 1 of a sample is axis 2 of the stack, and its
rows can be merged with the batch axis, ``[B * 3, 4]``, and taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator

__all__ = ["BatchAxis", "Operators", "numbers_of"]


class Operators:
    """Records nodes of ONNX's operators.

    Attributes:
        builder: Records the new nodes.
        opset: Version of ONNX's operators in the model.
        op: Records a node with one output, and returns that: `Builder.op`.
        ints: Records a constant int64 vector: `Builder.ints`.
        arange: Records the numbers ``0 .. count - 1``: `Builder.arange`.
        shape: Records some dimensions of a value: `Builder.shape`.
    """

    def __init__(self, builder: Builder, opset: int) -> None:
        self.builder = builder
        self.opset = builder.opset = opset
        self.op, self.ints = builder.op, builder.ints
        self.arange, self.shape = builder.arange, builder.shape

    def unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Insert axes of size 1; no axes give the value itself."""
        return self.op("Unsqueeze", [value, self.ints(*axes)]) if axes else value

    def squeeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Remove axes of size 1; no axes, and axes inserted just before, leave no node."""
        if not axes:
            return value
        before = self.before_unsqueeze(value, axes)
        return self.op("Squeeze", [value, self.ints(*axes)]) if before is None else before

    def before_unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value | None:
        """Return what a value was before it gained axes of size 1, None if it did not.

        Args:
            value: A value of the new graph.
            axes: The axes, not negative.
        """
        node = value.producer()
        if not is_operator(node, "Unsqueeze"):
            return None
        known = constant_value(node.inputs[1])
        given = [] if known is None else known.reshape(-1).tolist()
        return node.inputs[0] if sorted(given) == sorted(axes) else None

    def reduce(
        self, op_type: str, value: ir.Value, axes: Sequence[int], *, keepdims: bool = True
    ) -> ir.Value:
        """Reduce over axes; ``op_type`` is one of the operators ``ReduceX``."""
        return self.op(op_type, [value, self.ints(*axes)], {"keepdims": int(keepdims)})

    def reshape(self, value: ir.Value, target: ir.Value) -> ir.Value:
        """Reshape to dimensions that are all given; a 0 among them is a dimension of 0."""
        return self.op("Reshape", [value, target], {"allowzero": 1})


class BatchAxis(Operators):
    """Records nodes on stacked values.

    Attributes:
        batch: Number of samples as an int64 vector ``[1]``.
    """

    def __init__(self, builder: Builder, opset: int, batch: ir.Value) -> None:
        super().__init__(builder, opset)
        self.batch = batch

    def padded_rank(self, operand: Batched, rank: int) -> ir.Value:
        """Return an operand that aligns with batched operands of sample rank ``rank``.

        A stacked operand of a smaller rank gains axes of size 1 behind the batch axis. A shared
        one aligns from the right as it is.
        """
        if operand.is_shared or operand.rank >= rank:
            return operand.value
        return self.unsqueeze(operand.value, range(1, rank - operand.rank + 1))

    def batched_shape(self, value: ir.Value) -> ir.Value:
        """Return ``[B, *shape(value)]`` of a shared value as an int64 vector."""
        return self.op("Concat", [self.batch, self.op("Shape", [value])], {"axis": 0})

    def expanded(self, operand: Batched) -> ir.Value:
        """Return an operand as ``[B, *s]``: a shared one is repeated for every sample."""
        if operand.is_stacked:
            return operand.value
        return self.op("Expand", [operand.value, self.batched_shape(operand.value)])

    def axis(self, axis: int, rank: int) -> int:
        """Return the axis of a stacked value that is ``axis`` of a sample of rank ``rank``.

        Raises:
            Decline: A sample has no such axis; its stack might.
        """
        if not -rank <= axis < rank:
            raise Decline(Code.NO_RULE, f"a sample of rank {rank} has no axis {axis}")
        return axis + 1 if axis >= 0 else axis + rank + 1

    def axis_attribute(self, node: ir.Node, rank: int, default: int | None = None) -> int:
        """Return the axis of a stacked value that the ``axis`` of a node means.

        Args:
            node: The node of the body.
            rank: Rank of a sample.
            default: What the node means if it has no such attribute.

        Raises:
            Decline: See `axis`.
        """
        axis = self.attribute(node, "axis", default)
        if axis is None:
            raise Decline(Code.NO_RULE, "its axis is left out")
        return self.axis(int(axis), rank)

    def shifted_axes(self, axes: Batched, rank: int) -> ir.Value:
        """Return shared axes of a sample, known at run time only, as axes of its stack.

        The result is not negative: onnxruntime gets the shape of a reduction of no rows over a
        negative axis wrong. An axis that a sample does not have is none of the stack either: the
        one before its first is not the batch axis.
        """
        dtype = axes.element_type.numpy()
        zero, one, wrap, least, away = (
            self.builder.constant(np.array(n, dtype)) for n in (0, 1, rank + 1, -rank, -1)
        )
        shift = self.op("Where", [self.op("Less", [axes.value, zero]), wrap, one])
        shift = self.op("Where", [self.op("Less", [axes.value, least]), away, shift])
        return self.op("Add", [axes.value, shift])

    def merged(self, value: ir.Value, dims: Sequence[int | str | None] = ()) -> ir.Value:
        """Merge the batch axis of ``[B, N, ...]`` into the next one: ``[B * N, ...]``.

        Args:
            value: The stacked value.
            dims: Dimensions of a sample, where they are known: numbers spare their computation.
        """
        if dims and dims[0] == 1:
            return self.squeeze(value, [1])
        if dims and _are_positive(dims[1:]):
            return self.op("Reshape", [value, self.ints(-1, *numbers_of(dims[1:]))])
        # The size is computed: a -1 could not be resolved where another dimension is 0.
        size = self.op("ReduceProd", [self.shape(value, 0, 2)], {"keepdims": 1})
        target = self.op("Concat", [size, self.shape(value, 2)], {"axis": 0})
        return self.reshape(value, target)

    def unmerged(
        self, value: ir.Value, like: ir.Value, dims: Sequence[int | str | None] = ()
    ) -> ir.Value:
        """Split the first axis of ``[B * N, ...]`` as the first two of ``like`` are.

        Args:
            value: The merged value.
            like: A stacked value ``[B, N, ...]``.
            dims: Dimensions of a sample of the result, where they are known.
        """
        if dims and dims[0] == 1:
            return self.unsqueeze(value, [1])
        if dims and _are_positive(dims):
            return self.op("Reshape", [value, self.ints(-1, *numbers_of(dims))])
        target = self.op("Concat", [self.shape(like, 0, 2), self.shape(value, 1)], {"axis": 0})
        return self.reshape(value, target)

    def attribute(self, node: ir.Node, name: str, default: Any = None) -> Any:
        """Return the value of an attribute of a node, or a default."""
        found = node.attributes.get(name)
        if found is None:
            return default
        value = found.value
        return value.decode() if isinstance(value, bytes) else value


def numbers_of(dims: Sequence[int | str | None]) -> list[int]:
    """Return the dimensions that are known numbers."""
    return [d for d in dims if isinstance(d, int)]


def _are_positive(dims: Sequence[int | str | None]) -> bool:
    return all(isinstance(d, int) and d > 0 for d in dims)
