"""Sequences inside of a body: a sequence whose elements are stacked tensors ``[B, *s]``."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.picked_elements import picked_elements
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline
from passes.graph.graphs import is_operator

__all__ = ["at", "concatenate", "construct", "has_element", "insert", "length", "split"]


def _shared_position(ctx: Context, operands: Sequence[Operand], index: int) -> ir.Value | None:
    return ctx.require_shared(ctx.optional(operands, index), "position")


def _stacked_sequence(x: Batched) -> ir.Value:
    """Return a sequence of stacked elements; an empty one holds none that is not."""
    if x.is_stacked:
        return x.value
    if not is_operator(x.value.producer(), "SequenceEmpty"):
        raise Decline(Code.SEQUENCE_IN_BODY, "a sequence holds shared and stacked elements")
    return x.value


def construct(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """SequenceConstruct: every element is stacked."""
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    return ctx.same(node, [ctx.expanded(x) for x in given])


def at(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """SequenceAt and SequenceErase at a shared position; the elements that each sample picks."""
    sequence, picks = ctx.operand(operands, 0), ctx.optional(operands, 1)
    if node.op_type == "SequenceAt" and sequence.is_shared and picks is not None:
        picked = picked_elements(ctx, sequence.value, picks)
        if picked is not None:
            return [picked]
    position = _shared_position(ctx, operands, 1)
    return ctx.same(node, [ctx.operand(operands, 0).value, position])


def insert(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """SequenceInsert at a shared position."""
    sequence = _stacked_sequence(ctx.operand(operands, 0))
    element = ctx.expanded(ctx.operand(operands, 1))
    return ctx.same(node, [sequence, element, _shared_position(ctx, operands, 2)])


def length(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """SequenceLength is one number for all samples."""
    value = ctx.op("SequenceLength", [ctx.operand(operands, 0).value])
    value.type, value.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    return [ctx.shared(value)]


def concatenate(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """ConcatFromSequence, in both modes, along the axis behind the batch axis."""
    axis = ctx.attribute(node, "axis")
    new = axis if axis < 0 else axis + 1
    return ctx.same(node, [ctx.operand(operands, 0).value], {"axis": new})


def split(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """SplitToSequence with shared sizes, along the axis behind the batch axis."""
    sizes = ctx.require_shared(ctx.optional(operands, 1), "split")
    axis = ctx.attribute(node, "axis", 0)
    new = axis if axis < 0 else axis + 1
    return ctx.same(node, [ctx.operand(operands, 0).value, sizes], {"axis": new})


def has_element(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """OptionalHasElement: a stacked operand has its element for every sample."""
    value = ctx.op("OptionalHasElement", [ctx.operand(operands, 0).value])
    value.type, value.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
    return [ctx.shared(value)]
