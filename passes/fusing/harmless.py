"""Lets nodes that could fail run without samples, by operands that cannot fail there."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.fusing.fused_body import FusedBody
from passes.graphs import is_default_domain
from passes.typing import Typing

__all__ = ["make_harmless"]

_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


def make_harmless(fused: FusedBody, nodes: Sequence[ir.Node], typing: Typing) -> bool:
    """Let a Gather read from position 0 where there are no samples.

    What it yields has the shape that it would have had, so that nothing behind it can tell.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        nodes: Shared nodes of the body that could fail.
        typing: The proven typing.

    Returns:
        Whether all of the nodes can be made harmless; otherwise none of them is changed.
    """
    new = [_recorded(fused, node) for node in nodes]
    if not all(_reads_rows(node, typing) for node in nodes) or None in new:
        return False
    for old, one in zip(nodes, new, strict=True):
        assert one is not None
        _hold(fused, one, _dtype(old, typing))
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
    if node.op_type != "Gather" or not is_default_domain(node) or node.inputs[0] is None:
        return False
    dims = typing.dims(node.inputs[0])
    axis = node.attributes.get_int("axis", 0) or 0
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    return isinstance(size, int) and size > 0 and _dtype(node, typing) in _INTEGERS


def _dtype(node: ir.Node, typing: Typing) -> ir.DataType | None:
    return None if node.inputs[1] is None else typing.dtype(node.inputs[1])


def _hold(fused: FusedBody, node: ir.Node, dtype: ir.DataType | None) -> None:
    """Multiply the positions of a Gather by 0 where there are no samples, otherwise by 1."""
    stage = _builder_of(fused, node)
    assert stage is not None
    builder = Builder(stage.origin)
    some = builder.op("Min", [fused.batch, builder.ints(1)])
    some = builder.op("Squeeze", [some, builder.ints(0)])
    if dtype != ir.DataType.INT64:
        some = builder.op("Cast", [some], {"to": dtype})
    held = builder.op("Mul", [node.inputs[1], some])
    node.replace_input_with(1, held)
    place = stage.nodes.index(node)
    stage.nodes[place:place] = builder.nodes
