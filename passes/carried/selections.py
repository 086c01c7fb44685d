"""Choices between two values by a condition: Where, and an If that hands on what it is given."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.pattern import operator
from passes.reading.facts import skip_identities

__all__ = ["Selection", "find_selection"]


@dataclasses.dataclass(frozen=True)
class Selection:
    """One of two values.

    Attributes:
        condition: Which: a boolean of any shape for a Where, of one element for an If.
        chosen: What is taken where it is true.
        other: What is taken where it is false.
        is_whole: Whether it takes one or the other as a whole.
        branches: The graphs of an If in which the values are computed; none of a Where.
    """

    condition: ir.Value
    chosen: ir.Value
    other: ir.Value
    is_whole: bool = False
    branches: tuple[ir.Graph, ...] = ()


def find_selection(value: ir.Value, body: ir.Graph) -> Selection | None:
    """Return which two values of a body a value is chosen from, None if it is not."""
    value = skip_identities(value)
    node = operator(value, body)
    if node is None or any(v is None for v in node.inputs):
        return None
    inputs = [v for v in node.inputs if v is not None]
    if node.op_type == "Where":
        return Selection(inputs[0], skip_identities(inputs[1]), skip_identities(inputs[2]))
    if node.op_type != "If":
        return None
    at = list(node.outputs).index(value)
    branches = tuple(node.attributes[n].as_graph() for n in ("then_branch", "else_branch"))
    chosen, other = (skip_identities(branch.outputs[at]) for branch in branches)
    return Selection(inputs[0], chosen, other, is_whole=True, branches=branches)
