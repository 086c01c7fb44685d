"""Dimensions that a graph computes: of a Range, a fill, a slice, a sum of two tensors."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_default_domain
from passes.graph.made import axes_of, made_by, operand, operands, optional_operand
from passes.graph.whole_slices import END, constant_entries, takes_all
from passes.numbers.entry_reads import number_at
from passes.numbers.integer_reads import INTEGERS, NumberReader
from passes.numbers.integers import Linear
from passes.numbers.last_iteration import is_never_negative
from passes.numbers.number_order import greatest

__all__ = ["made_along", "made_size"]

_OF_TWO = ("Add", "Div", "Mul", "Sub")


def made_size(evaluator: NumberReader, tensor: ir.Value, axis: int) -> Linear | None:
    """Return a dimension of what is made of a size: a Range, a fill, an expanded number, a slice.

    Or a sum, a product and the like of two tensors.

    Args:
        evaluator: Knows numbers.
        tensor: A tensor.
        axis: The axis, from 0.
    """
    node = made_by(tensor, "Range", "ConstantOfShape", "Expand", "Slice", "Tile", *_OF_TWO)
    if node is None:
        return None
    if node.op_type == "Tile":
        is_one = evaluator.dimension(operand(node, 0), axis) == Linear(1)
        return number_at(evaluator, operand(node, 1), axis) if is_one else None
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


_KEEP_SHAPE = frozenset(
    {"Abs", "Cast", "Ceil", "Cos", "Exp", "Floor", "Identity", "Log", "Neg", "Not", "Reciprocal"}
    | {"Relu", "Round", "Sigmoid", "Sign", "Sin", "Softmax", "Sqrt", "Tanh"}
)
"""Operators of one tensor whose result has its shape."""


def made_along(
    evaluator: NumberReader, tensor: ir.Value, axis: int
) -> tuple[ir.Value, int] | None:
    """Return what a tensor is made of along an axis: an operand with an axis of the same size.

    Other axes may have been cut, or all moved. None if the node changes the size.
    """
    node, rank = tensor.producer(), evaluator.rank(tensor)
    if node is None or not is_default_domain(node):
        return None
    if node.op_type in _KEEP_SHAPE:
        return operand(node, 0), axis
    if rank is None or not -rank <= axis < rank:
        return None
    axis %= rank
    match node.op_type:
        case "Transpose":
            return operand(node, 0), node.attributes.get_ints("perm", range(rank)[::-1])[axis]
        case "Slice":
            is_kept = takes_all(node) or _cuts_others(node, axis, rank)
            return (operand(node, 0), axis) if is_kept else None
        case "Split":
            is_cut = node.attributes.get_int("axis", 0) % rank == axis
            return None if is_cut else (operand(node, 0), axis)
        case "Unsqueeze":
            new = sorted(a % rank for a in axes_of(node) or ())
            given = None if not new or axis in new else axis - sum(a < axis for a in new)
            return None if given is None else (operand(node, 0), given)
        case "Squeeze":
            return _kept_along(evaluator, node, axis)
        case "Gather":
            return _picked_along(evaluator, node, axis)
        case "Add" | "Div" | "Mul" | "Sub":
            whole = [v for v in operands(node) if evaluator.rank(v) != 0]
            return (whole[0], axis) if len(whole) == 1 else None
        case "MatMul" | "Gemm":
            return _multiplied_along(evaluator, node, axis, rank)
    return None


def _multiplied_along(
    evaluator: NumberReader, node: ir.Node, axis: int, rank: int
) -> tuple[ir.Value, int] | None:
    """Return which operand of a product with one matrix has an axis of the result, and which."""
    left, right = operands(node)[:2]
    if evaluator.rank(left) != rank or evaluator.rank(right) != 2:
        return None
    if axis == rank - 1:
        return right, 1 - node.attributes.get_int("transB", 0)
    return left, 1 if node.attributes.get_int("transA", 0) else axis


def _kept_along(evaluator: NumberReader, node: ir.Node, axis: int) -> tuple[ir.Value, int] | None:
    """Return what a Squeeze takes axes from, and which of its axes becomes an axis."""
    before, gone = evaluator.rank(node.inputs[0]), axes_of(node)
    if before is None or gone is None:
        return None
    kept = [at for at in range(before) if at not in {a % before for a in gone}]
    return (operand(node, 0), kept[axis]) if axis < len(kept) else None


def _picked_along(
    evaluator: NumberReader, node: ir.Node, axis: int
) -> tuple[ir.Value, int] | None:
    """Return the positions of a Gather, and which of their axes becomes an axis of the result."""
    data, positions = operands(node)
    before, inner = evaluator.rank(data), evaluator.rank(positions)
    if before is None or inner is None:
        return None
    at = node.attributes.get_int("axis", 0) % before
    return (positions, axis - at) if at <= axis < at + inner else None


def _cuts_others(node: ir.Node, axis: int, rank: int) -> bool:
    """Whether a node is a Slice that cuts other axes than one, by constants."""
    axes = constant_entries(optional_operand(node, 3))
    return axes is not None and axis not in {int(a) % rank for a in axes.reshape(-1)}
