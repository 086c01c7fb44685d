"""SplitToSequence into a number of parts that is known: Split, and a sequence of its outputs."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import operand, optional_operand
from passes.typing import Typing

__all__ = ["split_to_sequence"]

_MOST_PARTS = 64


def split_to_sequence(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """Record the parts, and the sequence that is made of them; needs opset 13.

    Args:
        node: A SplitToSequence.
        typing: What is proven of the values.
        builder: Records the form.
    """
    axis = node.attributes.get_int("axis", 0)
    sizes = _sizes(node, typing, axis)
    if not sizes or len(sizes) > _MOST_PARTS or min(sizes) < 0:
        return None
    inputs = [node.inputs[0], builder.ints(*sizes)]
    parts = list(builder.node("Split", inputs, {"axis": axis}, outputs=len(sizes)).outputs)
    if _given(node) is None and not node.attributes.get_int("keepdims", 1):
        parts = [builder.op("Squeeze", [part, builder.ints(axis)]) for part in parts]
    return [builder.op("SequenceConstruct", parts)]


def _sizes(node: ir.Node, typing: Typing, axis: int) -> list[int] | None:
    """Return the sizes of the parts along the axis; None where they are not known."""
    given = _given(node)
    split = None if given is None else constant_value(given)
    if split is not None and split.ndim == 1:
        return [int(size) for size in split]
    dims = typing.dims(operand(node, 0))
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if not isinstance(size, int) or (given is not None and split is None):
        return None
    step = 1 if split is None else int(split)
    return None if step <= 0 else [min(step, size - start) for start in range(0, size, step)]


def _given(node: ir.Node) -> ir.Value | None:
    return optional_operand(node, 1)
