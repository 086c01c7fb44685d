"""Lets nodes that could fail run without samples, by operands that cannot fail there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.failing import FARTHEST
from passes.fusing.fused_body import FusedBody
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["make_harmless"]

_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def make_harmless(fused: FusedBody, nodes: Sequence[ir.Node], typing: Typing) -> bool:
    """Let a Gather read from position 0 where there are no samples, and a Range count so far.

    What a Gather yields has the shape that it would have had, so that nothing behind it can tell.
    So has what a Range yields, unless it would have counted for megabytes.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        nodes: Shared nodes of the body that could fail.
        typing: The proven typing.

    Returns:
        Whether all of the nodes can be made harmless; otherwise none of them is changed.
    """
    new = [_recorded(fused, node) for node in nodes]
    if not all(_reads_rows(n, typing) or _counts(n, typing) for n in nodes) or None in new:
        return False
    for old, one in zip(nodes, new, strict=True):
        assert one is not None
        hold = _not_far if old.op_type == "Range" else _at_first
        _hold(fused, one, _dtype(old, typing), hold)
    return True


def _recorded(fused: FusedBody, node: ir.Node) -> ir.Node | None:
    """Return the new node that stands for a shared node; None if it is inside of another."""
    held = fused.walk.env.get(node.outputs[0])
    new = None if held is None else held.value.producer()
    return new if new is not None and _builder_of(fused, new) is not None else None


def _builder_of(fused: FusedBody, node: ir.Node) -> Builder | None:
    return next((stage for stage in fused.walk.stages if node in stage.nodes), None)


def _reads_rows(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is a Gather along an axis that has a position 0."""
    if not is_operator(node, "Gather"):
        return False
    dims = typing.dims(operand(node, 0))
    axis = node.attributes.get_int("axis", 0)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    return isinstance(size, int) and size > 0 and _dtype(node, typing) in _INTEGERS


def _dtype(node: ir.Node, typing: Typing) -> ir.DataType | None:
    return typing.dtype(operand(node, 1))


def _counts(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is a Range from a constant in constant steps of at least 1."""
    if not is_operator(node, "Range"):
        return False
    start, step = (constant_value(node.inputs[i]) for i in (0, 2))
    if start is None or step is None or not (abs(step) >= 1).all():
        return False
    return bool(abs(start) <= FARTHEST) and _dtype(node, typing) in (*_INTEGERS, *_FLOATS)


_Hold = Callable[[Builder, ir.Value, ir.Value, ir.DataType], ir.Value]
"""Records an operand anew, by itself, by 1 or 0 for whether there are samples, and their type."""


def _at_first(
    builder: Builder, positions: ir.Value, some: ir.Value, dtype: ir.DataType
) -> ir.Value:
    """Return positions, or 0 where there are no samples."""
    return builder.op("Mul", [positions, some])


def _not_far(builder: Builder, limit: ir.Value, some: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return a limit; without samples a limit that is not far from 0."""
    most, least, none = (
        builder.constant(np.array(n, dtype.numpy())) for n in (FARTHEST, -FARTHEST, 0)
    )
    near = builder.op("Max", [builder.op("Min", [limit, most]), least])
    return builder.op("Where", [builder.op("Greater", [some, none]), limit, near])


def _hold(fused: FusedBody, node: ir.Node, dtype: ir.DataType | None, hold: _Hold) -> None:
    """Let the second operand of a node be harmless where there are no samples."""
    stage = _builder_of(fused, node)
    assert stage is not None
    builder = Builder(stage.origin)
    some = builder.op("Min", [fused.batch, builder.ints(1)])
    some = builder.op("Squeeze", [some, builder.ints(0)])
    if dtype != ir.DataType.INT64:
        some = builder.op("Cast", [some], {"to": dtype})
    node.replace_input_with(1, hold(builder, operand(node, 1), some, dtype or ir.DataType.INT64))
    place = stage.nodes.index(node)
    stage.nodes[place:place] = builder.nodes
