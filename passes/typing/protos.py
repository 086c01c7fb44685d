"""Nodes of the messages that ONNX's inference takes."""

from __future__ import annotations

from collections.abc import Collection

import onnx

__all__ = ["is_written"]


def is_written(node: onnx.NodeProto, op_types: Collection[str]) -> bool:
    """Whether a node is one of some operators of ONNX's own."""
    return node.op_type in op_types and node.domain in ("", "ai.onnx")
