"""Dimensions that a graph computes: of a Range, a fill, a slice, a sum of two tensors."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.made import made_by, operand, operands, optional_operand
from passes.reading.entry_reads import number_at
from passes.reading.integer_reads import INTEGERS, NumberReader
from passes.reading.integers import Linear
from passes.reading.last_iteration import is_never_negative
from passes.reading.number_order import greatest

__all__ = ["END", "made_size"]

END = 2**31 - 1
"""Exporters end a Slice that goes to the end here, or farther."""

_OF_TWO = ("Add", "Div", "Mul", "Sub")


def made_size(evaluator: NumberReader, tensor: ir.Value, axis: int) -> Linear | None:
    """Return a dimension of what is made of a size: a Range, a fill, an expanded number, a slice.

    Or a sum, a product and the like of two tensors.

    Args:
        evaluator: Knows numbers.
        tensor: A tensor.
        axis: The axis, from 0.
    """
    node = made_by(tensor, "Range", "ConstantOfShape", "Expand", "Slice", *_OF_TWO)
    if node is None:
        return None
    if node.op_type in _OF_TWO:
        return _broadcast(evaluator, node, axis)
    if node.op_type == "Slice":
        return _sliced(evaluator, node, axis)
    if node.op_type == "Range":
        return _counted(evaluator, node)
    if node.op_type == "Expand":
        dims, count = (evaluator.dims(value) for value in node.inputs)
        if dims is None or any(dim != 1 for dim in dims) or count is None or len(count) != 1:
            return None
        if not isinstance(count[0], int) or count[0] < len(dims):
            return None
    return number_at(evaluator, operand(node, node.op_type == "Expand"), axis)


def _sliced(evaluator: NumberReader, node: ir.Node, axis: int) -> Linear | None:
    """Return how much a Slice in steps of 1 leaves of an axis, if that is one number."""
    rank, axes = evaluator.rank(node.inputs[0]), evaluator.of(optional_operand(node, 3))
    steps = evaluator.of(optional_operand(node, 4))
    if rank is None or axes is None or any(n.number is None for n in axes):
        return None
    named = [(n.number or 0) % rank for n in axes]
    if axis not in named:
        return evaluator.dimension(operand(node, 0), axis)
    place = named.index(axis)
    start, end = (number_at(evaluator, operand(node, at), place) for at in (1, 2))
    size = evaluator.dimension(operand(node, 0), axis)
    if start is None or end is None or size is None:
        return None
    if start.number is not None and (end.number or 0) >= END:
        end = size
    elif (end - start).number is None:
        return None
    by_one = optional_operand(node, 4) is None or set(steps or ()) == {Linear(1)}
    inside = (start, end - start, size - end)
    is_known = by_one and all(is_never_negative(evaluator, n) for n in inside)
    return end - start if is_known else None


def _broadcast(evaluator: NumberReader, node: ir.Node, axis: int) -> Linear | None:
    """Return a dimension of what two tensors broadcast to: theirs, or that which is not 1."""
    rank = evaluator.rank(node.outputs[0])
    ranks = [evaluator.rank(v) for v in operands(node)]
    if rank is None or None in ranks:
        return None
    own = [(v, axis - rank + (r or 0)) for v, r in zip(operands(node), ranks, strict=True)]
    sizes = [evaluator.dimension(v, at) for v, at in own if at >= 0]
    known = {size for size in sizes if size is not None}
    if len(known) > 1:
        known.discard(Linear(1))
    return known.pop() if None not in sizes and len(known) == 1 else None


def _counted(evaluator: NumberReader, node: ir.Node) -> Linear | None:
    """Return how many numbers a Range in steps of 1 holds."""
    start, limit, step = (evaluator.number(v) for v in node.inputs)
    if start is None or limit is None or step is None or step.number != 1:
        return None
    if evaluator.dtype(node.outputs[0]) not in INTEGERS:
        return None
    return greatest([Linear(), limit - start])
