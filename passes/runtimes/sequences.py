"""Sequence operators that onnxruntime gets wrong."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import optional_operand
from passes.runtimes.types import Types

__all__ = ["is_cut_by_several", "with_its_axis"]


def is_cut_by_several(node: ir.Node, types: Types) -> bool:
    """Whether slices of several rows are to lose their axis, which ONNX does not ask for.

    It ignores ``keepdims`` where sizes are given. Slices of one row are left alone: onnxruntime
    takes their axis away, and the rank of what reads them may be by that.
    """
    size = constant_value(optional_operand(node, 1))
    if size is None or size.ndim or node.attributes.get_int("keepdims", 1):
        return False
    return bool(size != 1)


def with_its_axis(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The slices with their axis, as ONNX has them."""
    left = {name: a for name, a in node.attributes.items() if name != "keepdims"}
    return [builder.op("SplitToSequence", node.inputs, left)]
