"""What an If yields, which OpenVINO lets its readers read too early."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import Builder
from passes.runtimes.types import Types

__all__ = ["expanded_to_its_shape", "is_read_early"]

_WAITS = ("Expand", "Shape")
"""Operators that read an If's output in time, each as the form of the row has it."""


def is_read_early(node: ir.Node, types: Types) -> bool:
    """Whether other nodes read what an If yields.

    OpenVINO prepares the nodes that follow before the If has told the shapes of its outputs. What
    they compute is not defined whenever a shape is larger than all before it.
    """
    if not all(types.is_tensor(out) for out in node.outputs):
        return False
    readers = (use.node for out in node.outputs for use in out.uses())
    return any(reader.op_type not in _WAITS for reader in readers)


def expanded_to_its_shape(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """Each output that is read expanded to the shape that it has: OpenVINO has to wait for it."""
    return [
        builder.op("Expand", [out, builder.op("Shape", [out])]) if out.uses() else out
        for out in node.outputs
    ]
