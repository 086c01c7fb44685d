"""Scatters that write all that a tensor holds at one position along an axis: ``s[:, i] = v``.

PyTorch and JAX write it as a ScatterND to all places of column ``i``, PaddlePaddle as a
ScatterElements along the axis, whose indices are all ``i``.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import onnx_ir as ir

from passes.carried.common.uniform import one_number
from passes.carried.places.columns import find_columns
from passes.carried.places.range_reads import Range, find_ranges
from passes.graph.made import operand
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Linear

__all__ = ["writes_all_at"]


def writes_all_at(
    node: ir.Node,
    at: tuple[int, Linear],
    tensors: Collection[ir.Value],
    initial: ir.Value,
    scope: Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether a scatter without a reduction writes all of one position, in order.

    Args:
        node: The scatter.
        at: The axis, and the position along it.
        tensors: The carried tensor, and what it is after some writes, of the same shape.
        initial: What it is in front of the first iteration.
        scope: The body of the Loop, and the branch that the node stands in.
        evaluator: Knows the numbers of the body.
    """
    if node.attributes.get_string("reduction", "none") != "none":
        return False
    if node.op_type == "ScatterElements":
        return _fills(node, at, initial, evaluator)
    places = operand(node, 1)
    if _is_table(places, at, initial, evaluator):
        return True
    columns, (axis, number) = find_columns(places, scope, evaluator), at
    if columns is None or len(columns) <= axis:
        return False
    found = find_ranges(columns, tensors, initial, scope, evaluator)
    if found is None or columns[axis].start != number or not columns[axis].is_point:
        return False
    return all(one == Range() for i, one in enumerate(found[0]) if i != axis)


def _fills(node: ir.Node, at: tuple[int, Linear], initial: ir.Value, evaluator: Evaluator) -> bool:
    """Whether a ScatterElements has an index for each place, all of them one number."""
    axis, number = at
    indices, rank = operand(node, 1), evaluator.rank(initial)
    if rank is None or evaluator.rank(indices) != rank:
        return False
    if node.attributes.get_int("axis", 0) % rank != axis:
        return False
    if one_number(indices, evaluator) != number:
        return False
    sizes = [evaluator.dimension(indices, i) for i in range(rank)]
    wanted = [Linear(1) if i == axis else evaluator.dimension(initial, i) for i in range(rank)]
    return None not in sizes and sizes == wanted


def _is_table(
    places: ir.Value, at: tuple[int, Linear], initial: ir.Value, evaluator: Evaluator
) -> bool:
    """Whether places are known number by number, and are those of the position, in order."""
    axis, number = at
    table, dims = evaluator.table(places), evaluator.dims(initial)
    if table is None or not dims or len(table[0]) <= axis:
        return False
    sizes = dims[: len(table[0])]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return False
    along = ([number] if i == axis else map(Linear, range(n)) for i, n in enumerate(known))
    return table == list(itertools.product(*along))
