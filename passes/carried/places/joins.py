"""Operators that join a value to a part of what is carried: ``h[i] += x``."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.pattern import added, dependent_values, path_through
from passes.graph.made import made_by
from passes.graph.scopes import Scope

__all__ = ["Join", "find_join"]

_REDUCTIONS = {"Add": "add", "Sum": "add", "Sub": "add", "Mul": "mul", "Max": "max", "Min": "min"}
"""The reduction of a scatter that each operator is."""


@dataclasses.dataclass(frozen=True)
class Join:
    """One value joined to another that depends on what is carried.

    Attributes:
        node: What joins them.
        read: The one that depends on it.
        delta: The other one.
    """

    node: ir.Node
    read: ir.Value
    delta: ir.Value

    @property
    def reduction(self) -> str:
        """The reduction of a scatter that this is."""
        return _REDUCTIONS[self.node.op_type]

    def signed(self) -> tuple[ir.Value, list[ir.Node]]:
        """Return what the reduction joins, and what computes it; they stand in no graph."""
        if self.node.op_type != "Sub":
            return self.delta, []
        negated = added("Neg", [self.delta])
        return negated.outputs[0], [negated]


def find_join(
    value: ir.Value, inner: ir.Value, body: ir.Graph | Scope, dtype: ir.DataType | None
) -> Join | None:
    """Return how a value is joined to one that depends on a carried value; None if it is not.

    A difference is the sum of a negated number, which a type without a sign has not.
    """
    node = made_by(value, *_REDUCTIONS, body=body)
    path = None if node is None else path_through(node, dependent_values(body, inner))
    if node is None or path is None or len(path[1]) != 1:
        return None
    at, (delta,) = path
    read = node.inputs[at]
    assert read is not None
    if node.op_type == "Sub" and (at or dtype is None or not dtype.is_signed()):
        return None
    return Join(node, read, delta)
