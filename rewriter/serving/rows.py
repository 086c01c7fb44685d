"""Operators that keep rows apart: each row of a result follows from one row of what they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from passes.batching.packed.rules import BROADCASTING, UNARY
from passes.graph.graphs import constant_value, is_default_domain
from passes.graph.made import axes_of, operands, optional_operand
from passes.typing import Typing

__all__ = ["keeps_rows"]

_MEET = frozenset(f"{UNARY} {BROADCASTING} Clip PRelu Dropout".split())
"""Rows meet rows, and what all share is spread over them."""
_ALONG = {
    "Softmax": -1,
    "LogSoftmax": -1,
    "Hardmax": -1,
    "LpNormalization": -1,
    "LayerNormalization": -1,
    "TopK": -1,
    "ArgMax": 0,
    "ArgMin": 0,
    "Gather": 0,
    "Split": 0,
}
"""Operators along one axis, or from one on, and the one that they take where none is told."""
_IMAGES = frozenset(
    {
        *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool"),
        *("GlobalMaxPool", "LRN", "BatchNormalization", "InstanceNormalization"),
        "GroupNormalization",
    }
)
_AXES = frozenset({"Squeeze", "Unsqueeze"})
_OLD_SOFTMAX = 13
"""Before this opset Softmax and its kin run over all axes behind theirs at once."""


def keeps_rows(node: ir.Node, rows: Collection[ir.Value], typing: Typing, opset: int) -> bool:
    """Return whether each row of the results of a node follows from one row of what it reads.

    Args:
        node: The node.
        rows: Which of its operands hold rows; all samples share the others.
        typing: The proven typing.
        opset: Version of ONNX's operators.
    """
    if not is_default_domain(node) or not rows or not node.inputs or node.inputs[0] is None:
        return False
    ranks = {value: typing.rank(value) for value in operands(node)}
    if any(not ranks[value] for value in rows):
        return False
    name, first, shared = node.op_type, node.inputs[0], [v for v in ranks if v not in rows]
    if name in _MEET:
        return _fit(rows, shared, ranks, typing)
    if name == "Concat":
        return not shared and _is_behind(node.attributes.get_int("axis", 0), ranks[first])
    if name == "MatMul":
        return _is_product(node, rows, ranks, typing)
    if len(rows) > 1 or first not in rows:
        return False
    return _keeps_first(node, first, ranks, typing, opset)


def _keeps_first(
    node: ir.Node,
    data: ir.Value,
    ranks: Mapping[ir.Value, int | None],
    typing: Typing,
    opset: int,
) -> bool:
    """Whether an operator keeps the rows of its first operand, the only one that has rows."""
    name, rank = node.op_type, ranks[data]
    assert rank is not None
    if name == "Flatten":
        axis = node.attributes.get_int("axis", 1)
        return (axis + rank if axis < 0 else axis) == 1
    if name in _ALONG:
        is_old = name in ("Softmax", "LogSoftmax", "Hardmax") and opset < _OLD_SOFTMAX
        return not is_old and _is_behind(node.attributes.get_int("axis", _ALONG[name]), rank)
    if name in _IMAGES:  # further results are statistics, or places among all images
        return len(node.outputs) == 1 and not node.attributes.get_int("training_mode", 0)
    if name.startswith("Reduce") or name in _AXES:
        axes = axes_of(node)
        whole = rank + len(axes or ()) if name == "Unsqueeze" else rank
        return bool(axes) and all(_is_behind(axis, whole) for axis in axes or ())
    if name == "Gemm":
        bias = optional_operand(node, 2)
        turned = node.attributes.get_int("transA", 0)
        return not turned and (bias is None or _is_spread(bias, 2, ranks, typing))
    if name == "Transpose":
        return next(iter(node.attributes.get_ints("perm") or ()), -1) == 0
    if name == "Reshape":
        target = constant_value(node.inputs[1])
        kept = not node.attributes.get_int("allowzero", 0)
        return kept and target is not None and target.size > 0 and int(target[0]) == 0
    if name == "Slice":
        known = constant_value(optional_operand(node, 3))
        return known is not None and all(_is_behind(int(a), rank) for a in known.reshape(-1))
    return False


def _is_behind(axis: int, rank: int | None) -> bool:
    """Whether an axis is another than the first one."""
    return rank is not None and (axis + rank if axis < 0 else axis) > 0


def _fit(
    rows: Collection[ir.Value],
    shared: Sequence[ir.Value],
    ranks: Mapping[ir.Value, int | None],
    typing: Typing,
) -> bool:
    """Whether rows meet their own rows, and what is shared none but all of them."""
    (rank, *others) = {ranks[value] for value in rows}
    return (
        not others
        and rank is not None
        and all(_is_spread(value, rank, ranks, typing) for value in shared)
    )


def _is_spread(
    value: ir.Value, rank: int, ranks: Mapping[ir.Value, int | None], typing: Typing
) -> bool:
    """Whether a shared value meets all rows of a tensor alike."""
    own, dims = ranks[value], typing.dims(value)
    return own is not None and (own < rank or (own == rank and dims is not None and dims[0] == 1))


def _is_product(
    node: ir.Node,
    rows: Collection[ir.Value],
    ranks: Mapping[ir.Value, int | None],
    typing: Typing,
) -> bool:
    """Whether a MatMul multiplies row by row."""
    left, right = operands(node)
    if left in rows and right in rows:
        return ranks[left] == ranks[right] and (ranks[left] or 0) > 2
    data, other = (left, right) if left in rows else (right, left)
    rank, size = ranks[data], ranks[other]
    if rank is None or size is None or rank < (2 if data is left else 3):
        return False
    return size <= 2 or (rank > 2 and _is_spread(other, rank, ranks, typing))
