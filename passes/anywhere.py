"""Which nodes may run although the model would not run them, whatever shapes they meet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.failing import cannot_fail
from passes.graphs import subgraphs
from passes.typing import Typing

__all__ = ["runs_anywhere"]

Dims = Sequence[int | str | None]

_ANY_SHAPE = frozenset({"Cast", "CastLike", "Identity", "Shape", "Size"})
"""Operators that take whatever they are given."""

_ANY_RANK = frozenset(
    [
        "Constant",
        "Flatten",
        "ReduceL1",
        "ReduceL2",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Slice",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators that inference checks whole once it knows the rank of the first operand."""

_OF_NUMBERS = frozenset({"Div", "Mod", "Pow", "Range"})
"""Operators beside the families below that yield a result wherever their operands broadcast."""

_FAMILIES = frozenset({"elementwise", "broadcasting"})


def runs_anywhere(node: ir.Node, typing: Typing, opset: int) -> bool:
    """Whether a node yields a result wherever it runs, whatever the dimensions turn out to be.

    Args:
        node: A node; of those with graphs, only an If ever does.
        typing: The proven typing.
        opset: Version of ONNX's operators.
    """
    if not cannot_fail(node, typing):
        return False
    if node.op_type == "If":
        branches = [graph for _, graph in subgraphs(node)]
        return all(runs_anywhere(inner, typing, opset) for graph in branches for inner in graph)
    if node.op_type in _ANY_SHAPE or not any(node.inputs):
        return True
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and v.name != ""]
    if all(typing.static_dims(value) is not None for value in values):
        return True  # inference has checked it
    row = table.find(node, opset)
    family = row.family if isinstance(row, table.Row) else ""
    operands = [v for v in node.inputs if v is not None]
    if family in _FAMILIES and len(operands) == 1:
        return True
    if any(typing.dims(value) is None for value in values):
        return False
    known = [typing.dims(v) or () for v in operands]
    if node.op_type == "Concat":
        return _line_up(node, known, typing)
    if node.op_type == "MatMul":
        return _multiply(known[0], known[1], typing)
    if node.op_type in _ANY_RANK:
        return True
    if family in _FAMILIES or node.op_type in _OF_NUMBERS:
        return all(_broadcast(*pair, typing) for pair in itertools.combinations(known, 2))
    return False


def _multiply(one: Dims, other: Dims, typing: Typing) -> bool:
    """Whether two shapes have a matrix product, by proof."""
    if not one or not other:
        return False
    rows = other[-2] if len(other) > 1 else other[-1]
    is_equal = one[-1] == rows and typing.names_dimension(rows)
    return is_equal and _broadcast(one[:-2], other[:-2], typing)


def _line_up(node: ir.Node, dims: Sequence[Dims], typing: Typing) -> bool:
    """Whether operands of Concat have the same dimensions beside its axis."""
    axis, rank = node.attributes.get_int("axis", 0) or 0, len(dims[0])
    rest = [tuple(d for i, d in enumerate(one) if i != axis % max(rank, 1)) for one in dims]
    return all(one == rest[0] and all(map(typing.names_dimension, one)) for one in rest)


def _broadcast(one: Dims, other: Dims, typing: Typing) -> bool:
    """Whether two shapes broadcast, by proof."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(1 in (a, b) or (a == b and typing.names_dimension(a)) for a, b in pairs)
