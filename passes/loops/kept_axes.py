"""Lets one node keep the axis that another one would give back to what it yields."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import REDUCTIONS, axes_of, made_by, operand

__all__ = ["keep_axes"]


def keep_axes(builder: Builder, first: int) -> None:
    """Let the node in front of an Unsqueeze keep the axes that this one gives back.

    ``Unsqueeze(Gather(x, 2), [0])`` is ``Gather(x, [2])``, as loops that scripts export read the
    bounds of a Slice; ``Unsqueeze(ReduceSum(x, [0], keepdims=0), [0])`` is a ReduceSum that keeps
    its axis.

    Args:
        builder: Holds the nodes.
        first: Which is the first of them.
    """
    for node in builder.nodes[first:]:
        if not is_operator(node, "Unsqueeze"):
            continue
        axes, made = axes_of(node), made_by(operand(node, 0))
        if axes is None:
            continue
        if is_operator(made, "Gather"):
            _read_row(builder, node, made, axes)
        elif is_operator(made, REDUCTIONS):
            _reduce(node, made, axes)


def _read_row(builder: Builder, node: ir.Node, read: ir.Node, axes: Sequence[int]) -> None:
    """Turn an Unsqueeze behind a Gather at a constant position into a Gather."""
    axis, position = read.attributes.get_int("axis", 0), constant_value(read.inputs[1])
    if position is None or position.ndim or axis < 0 or axes != [axis]:
        return
    constants = Builder(builder.origin)
    positions = constants.ints(int(position))
    place = builder.nodes.index(node)
    builder.nodes[place:place] = constants.nodes
    _become(node, read, [read.inputs[0], positions])


def _reduce(node: ir.Node, reduction: ir.Node, axes: Sequence[int]) -> None:
    """Turn an Unsqueeze behind a reduction along the same axes into a reduction."""
    reduced = axes_of(reduction)
    if reduction.attributes.get_int("keepdims", 1) or not reduced:
        return
    if min(*reduced, *axes) >= 0 and sorted(reduced) == sorted(axes):
        _become(node, reduction, reduction.inputs)
        node.attributes["keepdims"] = ir.AttrInt64("keepdims", 1)


def _become(node: ir.Node, other: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
    """Turn a node into one like another; its result stays the same value."""
    node.op_type = other.op_type
    node.resize_inputs(len(inputs))
    for at, value in enumerate(inputs):
        node.replace_input_with(at, value)
    node.attributes.clear()
    node.attributes.update({name: other.attributes[name] for name in other.attributes})
