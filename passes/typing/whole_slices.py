"""Slices that leave a tensor whole, which ONNX's inference gives dimensions of new names."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from passes.graphs import constant_value, is_default_domain

__all__ = ["is_whole", "pass_whole"]

_END = np.iinfo(np.int32).max
_AROUND = frozenset({"Identity", "Unsqueeze", "Squeeze", "Reshape"})
"""Operators that change nothing about one number."""


def is_whole(node: ir.Node) -> bool:
    """Whether a node is a Slice from 0 to behind any end in steps of 1, by constants."""
    if node.op_type != "Slice" or not is_default_domain(node) or len(node.inputs) < 3:
        return False
    starts, ends = _constant(node.inputs[1]), _constant(node.inputs[2])
    if starts is None or ends is None or starts.any() or not (ends >= _END).all():
        return False
    if len(node.inputs) < 5 or node.inputs[4] is None:
        return True
    steps = _constant(node.inputs[4])
    return steps is not None and bool((steps == 1).all())


def _constant(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant, or one number that only gains or loses axes."""
    if value is None:
        return None
    found, node = constant_value(value), value.producer()
    if found is not None or node is None or node.op_type not in _AROUND:
        return found
    if not is_default_domain(node):
        return None
    inner = _constant(node.inputs[0])
    return inner if inner is not None and inner.size == 1 else None


def pass_whole(proto: onnx.NodeProto) -> None:
    """Let inference take a node for one that hands its first input on."""
    proto.op_type = "Identity"
    del proto.input[1:]
    del proto.attribute[:]
