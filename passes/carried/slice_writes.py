"""Writes to rows and slices of a carried tensor, in a form that joins all iterations.

PyTorch writes ``s[i, :n] = v`` as a ScatterND of a grid of places ``[1, n, 2]``, which differs in
length from iteration to iteration along its second axis. As a list of places ``[n, 2]`` and of
rows ``[n, ..]``, those of all iterations can be concatenated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from passes.carried.columns import Column, as_numbers, find_columns
from passes.carried.pattern import added, added_constant, added_integers, dependent_values
from passes.carried.read_place import find_joined, formed
from passes.graph.builder import END
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.facts import LoopFacts
from passes.reading.integers import ITERATION, Linear
from passes.reading.iterations import Carried

__all__ = ["SliceWrite", "find_slice_write", "point_of"]


@dataclasses.dataclass(frozen=True)
class SliceWrite:
    """What an iteration writes, and where.

    Attributes:
        indices: The places.
        updates: What is written there.
        kind: How those of all iterations are joined.
        nodes: What computes both; they stand in no graph.
        index: A number that grows with the iterations and that all places have along one axis,
            or begin with; None if there is none.
        width: How many positions may follow it, itself counted.
        axis: Along which axis that is.
        reduction: How it is joined to what is there.
        named: Along how many axes places are named, if they are a list of places.
        points: The numbers that name the one place along each axis.
    """

    indices: ir.Value
    updates: ir.Value
    kind: Literal["stacked", "concatenated"]
    nodes: tuple[ir.Node, ...]
    index: Linear | None
    width: int
    axis: int | None
    reduction: str = "none"
    named: int | None = None
    points: tuple[ir.Value, ...] = ()


def find_slice_write(scatter: ir.Node, carried: Carried, facts: LoopFacts) -> SliceWrite | None:
    """Return what a ScatterND without a reduction writes to a grid of places, or None.

    Args:
        scatter: The node.
        carried: The tensor that it writes to.
        facts: What is known of the Loop.
    """
    _, indices, updates = operands(scatter)
    body, evaluator, inner = facts.scope, facts.evaluator, carried.inner
    rank = evaluator.rank(carried.initial)
    columns = find_columns(indices, body, evaluator)
    if rank is None or columns is None:
        return None
    own = _own_place(columns)
    wide = [column for column in columns if not column.is_point]
    is_read_back = not wide and updates in dependent_values(body, inner)
    if not is_read_back and any(column.is_constant for column in columns):
        return None
    if len(wide) > 1:
        return SliceWrite(indices, updates, "stacked", (), *own)
    rest = _Rest(inner, len(columns), rank, evaluator)
    if wide:
        places, nodes = _rows(columns, wide[0])
        rows, more = _rows_of(updates, wide[0], rest, body, evaluator)
        both = (*nodes, *more)
        return SliceWrite(places, rows, "concatenated", both, *own, named=len(columns))
    columns, constants = as_numbers(columns)
    places, nodes = point_of(columns)
    nodes = [*constants, *nodes]
    value, reduction = updates, "none"
    if is_read_back:
        joins = find_joined(updates, columns, inner, body, evaluator)
        if joins is None:
            return None
        value, reduction, negated = joins
        nodes += negated
    elif rank == len(columns):
        value = formed(updates, body)
    else:
        value = _unshaped(updates, body)
    value, made = rest.cell(value, broadcasts=reduction != "none")
    kind: Literal["stacked"] = "stacked"
    points = tuple(column.root for column in columns)
    how = (kind, (*nodes, *made), *own, reduction, len(columns), points)
    return SliceWrite(places, value, *how)


def _own_place(columns: Sequence[Column]) -> tuple[Linear | None, int, int | None]:
    """Return where the places of one iteration begin that those of no other one reach.

    Returns:
        The number, how many positions may follow it, and along which axis.
    """
    for axis, column in enumerate(columns):
        start, size = column.start, column.size
        if start is None or size is None:
            continue
        if abs(start.coefficient(ITERATION)) >= size > 0:
            return start, size, axis
    return None, 1, None


@dataclasses.dataclass(frozen=True)
class _Rest:
    """The axes of a carried tensor behind those along which places are named."""

    inner: ir.Value
    named: int
    rank: int
    evaluator: Evaluator

    def shape(self) -> list[ir.Node]:
        """Return nodes; the last one computes their dimensions."""
        known = self._known()
        if known is not None:
            return [added_integers(*known)]
        bounds = [added_integers(self.named), added_integers(END)]
        whole = added("Shape", [self.inner])
        inputs = [whole.outputs[0], *(node.outputs[0] for node in bounds)]
        return [*bounds, whole, added("Slice", inputs)]

    def cell(self, value: ir.Value, *, broadcasts: bool) -> tuple[ir.Value, list[ir.Node]]:
        """Return what is written to one place, and the nodes that compute it."""
        known = self._known()
        if known is not None and self.evaluator.dims(value) == known:
            return value, []
        nodes = self.shape()
        dims = nodes[-1].outputs[0]
        if broadcasts and self.rank > self.named:
            nodes.append(added("Expand", [value, dims]))
            value = nodes[-1].outputs[0]
        nodes.append(added("Reshape", [value, dims], {"allowzero": 1}))
        return nodes[-1].outputs[0], nodes

    def _known(self) -> tuple[int, ...] | None:
        """Return their dimensions, None if one of them is not known."""
        dims = self.evaluator.dims(self.inner)
        rest = () if dims is None else dims[self.named :]
        known = tuple(dim for dim in rest if isinstance(dim, int))
        return known if len(known) == self.rank - self.named else None


def point_of(columns: Sequence[Column]) -> tuple[ir.Value, list[ir.Node]]:
    """Return one place, ``[axes]``, and what computes it.

    Args:
        columns: The number along each axis.
    """
    axis = added_integers(0)
    parts = [added("Unsqueeze", [column.root, axis.outputs[0]]) for column in columns]
    if len(parts) == 1:
        return parts[0].outputs[0], [axis, *parts]
    place = added("Concat", [part.outputs[0] for part in parts], {"axis": 0})
    return place.outputs[0], [axis, *parts, place]


def _rows(columns: Sequence[Column], wide: Column) -> tuple[ir.Value, list[ir.Node]]:
    """Return a list of places, ``[n, axes]``, and what computes it."""
    axis, shape = added_integers(1), added("Shape", [wide.root])
    nodes, parts = [axis, shape], []
    for column in columns:
        root = column.root
        if column.is_point:
            nodes.append(added("Expand", [root, shape.outputs[0]]))
            root = nodes[-1].outputs[0]
        nodes.append(added("Unsqueeze", [root, axis.outputs[0]]))
        parts.append(nodes[-1].outputs[0])
    places = added("Concat", parts, {"axis": 1})
    return places.outputs[0], [*nodes, places]


def _rows_of(
    updates: ir.Value, wide: Column, rest: _Rest, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[ir.Value, list[ir.Node]]:
    """Return a list of rows, ``[n, ..]``, and what computes it.

    What is written may be one row for all places, or one for each.
    """
    value, own = _unshaped(updates, body), 1 + rest.rank - rest.named
    shape, nodes = _shape_of_rows(wide, rest)
    given = _spread(value, own, body, evaluator)
    if given is None:
        if evaluator.rank(value) == own and _keeps_rows(value, updates, rest, evaluator):
            return value, []
        nodes.append(added("Reshape", [value, shape], {"allowzero": 1}))
        return nodes[-1].outputs[0], nodes
    picked: list[ir.Node] = []
    if evaluator.rank(given) == own:
        given, picked = _picked(given, wide)
    rows = added("Expand", [given, shape])
    return rows.outputs[0], [*picked, *nodes, rows]


def _keeps_rows(value: ir.Value, updates: ir.Value, rest: _Rest, evaluator: Evaluator) -> bool:
    """Whether a value is written row by row as it is, whatever it was reshaped to."""
    if value is skip_identities(updates):
        return True
    own, whole = evaluator.dims(value), evaluator.dims(rest.inner)
    if own is None or whole is None:
        return False
    return own[1:] == whole[rest.named :] and None not in own[1:]


def _shape_of_rows(wide: Column, rest: _Rest) -> tuple[ir.Value, list[ir.Node]]:
    """Return the shape of a list of rows, ``[n, ..]``, and what computes it."""
    nodes = [added("Shape", [wide.root])]
    if rest.rank > rest.named:
        count = nodes[0].outputs[0]
        nodes += rest.shape()
        nodes.append(added("Concat", [count, nodes[-1].outputs[0]], {"axis": 0}))
    return nodes[-1].outputs[0], nodes


def _spread(
    value: ir.Value, rank: int, body: ir.Graph | Scope, evaluator: Evaluator
) -> ir.Value | None:
    """Return what is expanded to rows of as many axes, None if nothing is."""
    node = made_by(value, "Expand", body=body)
    if node is None:
        return None
    given = skip_identities(operand(node, 0))
    own = evaluator.rank(given)
    return given if own is not None and own <= rank == evaluator.rank(value) else None


def _picked(value: ir.Value, wide: Column) -> tuple[ir.Value, list[ir.Node]]:
    """Return row ``min(i, rows - 1)`` of a value for each place ``i``, and what computes it."""
    zero, one = _scalar(0), _scalar(1)
    places, own = added("Shape", [wide.root]), added("Shape", [value])
    count, rows = (
        added("Gather", [shape.outputs[0], zero.outputs[0]], {"axis": 0})
        for shape in (places, own)
    )
    numbers = added("Range", [zero.outputs[0], count.outputs[0], one.outputs[0]])
    last = added("Sub", [rows.outputs[0], one.outputs[0]])
    at = added("Min", [numbers.outputs[0], last.outputs[0]])
    picked = added("Gather", [value, at.outputs[0]], {"axis": 0})
    return picked.outputs[0], [zero, one, places, own, count, rows, numbers, last, at, picked]


def _scalar(value: int) -> ir.Node:
    return added_constant(np.array(value, np.int64))


def _unshaped(value: ir.Value, body: ir.Graph | Scope) -> ir.Value:
    """Return what was reshaped to a value."""
    return through(value, ["Reshape"], body)
