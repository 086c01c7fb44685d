"""Copies of the nodes of a body, which stand in a graph that a rewrite makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import onnx_ir as ir

from passes.graphs import copy_nodes, subgraphs

__all__ = ["copy_body", "forget_dims", "rank_alone"]


_INFERRED_WRONGLY = frozenset({"Attention"})
"""Operators for which ONNX's inference gives false ranks: the checker refuses true ones."""


def copy_body(nodes: Iterable[ir.Node], values: dict[ir.Value, ir.Value | None]) -> list[ir.Node]:
    """Copy nodes in order as `copy_nodes` does, without the dimensions that are declared."""
    copies = copy_nodes(nodes, values)
    forget_dims(copies)
    return copies


def forget_dims(nodes: Iterable[ir.Node], kept: Collection[ir.Value] = ()) -> None:
    """Let what nodes yield have a rank and no dimensions: what a body declares may be false.

    onnxruntime folds what a graph computes of declared dimensions: with ``float[10,7,3]`` on a
    value, `Shape` of it is [10, 7, 3] whatever the value is. The outputs of the body of a Loop
    keep theirs, which tell what a Loop of no steps yields, and so does the body of a map, which
    is yet to be copied. onnxruntime refuses a Scan that yields a value of unknown rank.

    Args:
        nodes: The nodes; changed at any depth.
        kept: Values that keep their dimensions.
    """
    for node in nodes:
        for _, inner in subgraphs(node):
            if node.op_type != "SequenceMap":
                forget_dims(inner, inner.outputs if node.op_type in ("Loop", "Scan") else ())
        for value in node.outputs:
            if node.op_type in _INFERRED_WRONGLY:
                value.shape = None
            elif value not in kept:
                value.shape = rank_alone(value.shape)


def rank_alone(shape: ir.Shape | None) -> ir.Shape | None:
    """Return a shape of the same rank that has no dimensions."""
    return None if shape is None else ir.Shape([None] * len(shape))
