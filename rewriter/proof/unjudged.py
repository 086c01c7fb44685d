"""Operators that ONNX's evaluator is known to compute otherwise than onnxruntime: one table.

The values of the evaluator are no measure there, so onnxruntime judges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.graphs import is_default_domain, walk_nodes
from passes.typing import type_values

__all__ = ["UNJUDGED", "Unjudged", "find_unjudged"]


@dataclasses.dataclass(frozen=True)
class Unjudged:
    """One row of the table.

    Attributes:
        op_types: The operators.
        holds: Whether a node is meant, given the element type of its first input if that is known.
        reason: What differs, in one clause.
    """

    op_types: tuple[str, ...]
    holds: Callable[[ir.Node, ir.DataType | None], bool]
    reason: str


def _mode(node: ir.Node) -> str:
    mode = node.attributes.get("mode")
    return "nearest" if mode is None or mode.is_ref() else mode.as_string()


def _interpolates_integers(node: ir.Node, dtype: ir.DataType | None) -> bool:
    return _mode(node) != "nearest" and (dtype is None or not dtype.is_floating_point())


def _antialiases(node: ir.Node, dtype: ir.DataType | None) -> bool:
    antialias = node.attributes.get("antialias")
    return antialias is not None and (antialias.is_ref() or bool(antialias.as_int()))


UNJUDGED = (
    Unjudged(
        ("Resize", "Upsample"),
        _interpolates_integers,
        "the evaluator rounds interpolated integers otherwise",
    ),
    Unjudged(("Resize",), _antialiases, "the evaluator rounds otherwise with antialias"),
)
"""Up to half of all elements differ by one level, which a test pins."""


def find_unjudged(model: ir.Model) -> str:
    """Return why the evaluator does not judge a model, empty where it does."""
    graphs = (model.graph, *model.functions.values())
    nodes = [
        node
        for graph in graphs
        for node in walk_nodes(graph)
        if is_default_domain(node) and any(node.op_type in row.op_types for row in UNJUDGED)
    ]
    if not nodes:
        return ""
    typing = type_values(model, proven=False)
    for row in UNJUDGED:
        for node in nodes:
            value = node.inputs[0] if node.inputs else None
            dtype = None if value is None else typing.dtype(value)
            if node.op_type in row.op_types and row.holds(node, dtype):
                return row.reason
    return ""
