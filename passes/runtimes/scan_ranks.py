"""Ranks of what the bodies of Scans yield: onnxruntime refuses a Scan that lacks one."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.graphs import all_nodes, is_default_domain, subgraphs
from passes.typing import type_values

__all__ = ["forget_shapes", "name_scan_ranks"]


def name_scan_ranks(model: ir.Model) -> list[ir.Value]:
    """Write the rank of each value that the body of a Scan yields, where only inference knows it.

    A rewrite may take away what the rank is inferred from, in the body and far in front of it.

    Args:
        model: A model before it is rewritten.

    Returns:
        The values that had no shape before.
    """
    scans = [node for node in all_nodes(model) if node.op_type == "Scan"]
    bodies = [body for scan in scans if is_default_domain(scan) for _, body in subgraphs(scan)]
    outputs = [v for body in bodies for v in body.outputs if v.shape is None]
    if not outputs:
        return []
    typing = type_values(model)
    named = []
    for value in dict.fromkeys(outputs):
        rank, type_ = typing.rank(value), typing[value].type
        if rank is not None and isinstance(type_, ir.TensorType):
            value.type, value.shape = value.type or type_, ir.Shape([None] * rank)
            named.append(value)
    return named


def forget_shapes(values: Iterable[ir.Value]) -> None:
    """Let values have no shape."""
    for value in values:
        value.shape = None
