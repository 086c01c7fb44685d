"""Which nodes yield a result whatever the values of their operands are."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching import table
from passes.graphs import constant_value, is_default_domain
from passes.typing import Typing

__all__ = ["cannot_fail"]

_BY_TYPE = frozenset(
    {"Concat", "Constant", "Flatten", "Shape", "Size", "Slice", "Transpose", "Unsqueeze"}
)
"""Operators that inference checks whole once it knows the ranks."""

_BY_SHAPE = frozenset({"ConstantOfShape", "Expand", "MatMul", "Reshape", "Squeeze", "Tile"})
"""Operators that inference checks whole once it knows all dimensions."""


def cannot_fail(node: ir.Node, typing: Typing) -> bool:
    """Whether a node may run where it would not have run, because it cannot fail there.

    Args:
        node: A node with shared operands.
        typing: The proven typing.
    """
    if not is_default_domain(node):
        return False
    row = table.find(node, 1 << 20)
    if isinstance(row, table.Row) and row.total:
        return True
    known = [typing.rank(v) is not None for v in (*node.inputs, *node.outputs) if v is not None]
    if node.op_type in _BY_TYPE:
        return all(known)
    static = all(
        typing.static_dims(v) is not None for v in (*node.inputs, *node.outputs) if v is not None
    )
    if node.op_type in _BY_SHAPE:
        return static
    if node.op_type == "Gather" and static:
        return _is_in_range(node, typing)
    return False


def _is_in_range(node: ir.Node, typing: Typing) -> bool:
    data, indices = node.inputs[:2]
    positions = constant_value(indices)
    dims = None if data is None else typing.static_dims(data)
    if positions is None or not dims:
        return False
    size = dims[node.attributes.get_int("axis", 0) or 0]
    return bool((positions >= -size).all() and (positions < size).all())
