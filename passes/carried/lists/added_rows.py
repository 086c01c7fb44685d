"""What a value has more than the carried one: a row at its end or in front of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.lists.appends import unsqueezed
from passes.carried.lists.joined_elements import first_elements
from passes.carried.pattern import dependent_values, path_through
from passes.graph.made import made_by, only_number, operand, operands, skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried

__all__ = ["Added", "added_row", "dependent_in", "row_behind"]


@dataclasses.dataclass(frozen=True)
class Added:
    """The row that a branch, or each iteration, adds, at which end, and whether to a sequence."""

    row: ir.Value
    axis: int
    is_reversed: bool
    is_sequence: bool


def added_row(carried: Carried, value: ir.Value, graphs: Sequence[ir.Graph]) -> Added | None:
    """Return what a value has more than the carried one, None if it is anything else."""
    dependent = dependent_in(carried, graphs)
    node = made_by(value, body=Scope(tuple(graphs)))
    path = None if node is None else path_through(node, dependent)
    if node is None or path is None:
        return None
    found = _inserted(node, carried) or _joined(node, path, carried, graphs)
    return None if found is None else Added(*found, node.op_type == "SequenceInsert")


def row_behind(
    value: ir.Value, graphs: tuple[ir.Graph, ...], carried: Carried
) -> tuple[ir.Value, ir.Value, bool] | None:
    """Return what a value was before a row was added behind it, and the row; None if none was.

    Args:
        value: A tensor or a sequence.
        graphs: The body, and branches in it.
        carried: The value that it began as.

    Returns:
        What it was, the row, and whether it is a sequence.
    """
    node = made_by(value, "Concat", "SequenceInsert", body=Scope(graphs))
    if node is None:
        return None
    own = dataclasses.replace(carried, inner=skip_identities(operand(node, 0)))
    found = added_row(own, value, graphs)
    if found is None or found.is_reversed or found.axis:
        return None
    return own.inner, found.row, found.is_sequence


def dependent_in(carried: Carried, graphs: Sequence[ir.Graph]) -> set[ir.Value]:
    """Return what depends on a carried value, in the body and in branches in it."""
    return dependent_values(Scope(tuple(graphs)), carried.inner)


def _inserted(node: ir.Node, carried: Carried) -> tuple[ir.Value, int, bool] | None:
    """Return what a node inserts into a sequence that is known, and whether in front."""
    if node.op_type != "SequenceInsert" or first_elements(carried.initial) is None:
        return None
    sequence, element, *position = operands(node)
    if skip_identities(sequence) is not carried.inner:
        return None
    if not position:
        return element, 0, False
    return (element, 0, True) if only_number(position[0]) == 0 else None


def _joined(
    node: ir.Node, path: tuple[int, list[ir.Value]], carried: Carried, graphs: Sequence[ir.Graph]
) -> tuple[ir.Value, int, bool] | None:
    """Return the row that a Concat joins to a carried tensor, the axis, and whether in front."""
    at, others = path
    if node.op_type != "Concat" or len(others) != 1:
        return None
    if skip_identities(operand(node, at)) is not carried.inner:
        return None
    axis = node.attributes.get_int("axis", 0)
    part = skip_identities(others[0])
    row = next((r for g in graphs if (r := unsqueezed(part, g, axis)) is not None), None)
    return None if row is None or axis < 0 else (row, axis, at == 1)
