"""Finds the results of graphs inside of a body that may be rounded."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.context import Context, Operand
from passes.graph.graphs import captured_values, subgraphs

__all__ = ["carries_rounding"]


def carries_rounding(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> bool:
    """Whether batching may have changed by rounding what a loop carries from step to step.

    Args:
        ctx: The context of the node.
        node: A Loop or Scan.
        operands: Its operands.
    """
    captured = [ctx.read(v) for _, graph in subgraphs(node) for v in captured_values(graph)]
    read = [x for x in (*operands, *captured) if x is not None]
    return any(x.rounding for x in read) or table.may_round_inside(node, ctx.opset)
