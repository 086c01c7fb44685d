"""Writes to rows and slices of a carried tensor, in a form that joins all iterations.

PyTorch writes ``s[i, :n] = v`` as a ScatterND of a grid of places ``[1, n, 2]``, which differs in
length from iteration to iteration along its second axis. As a list of places ``[n, 2]`` and of
rows ``[n, ..]``, those of all iterations can be concatenated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from passes.carried.pattern import added, added_integers, dependent_values
from passes.carried.places.boxes import box_of, is_box
from passes.carried.places.columns import Column, as_numbers, find_columns
from passes.carried.places.grid_rows import (
    AxesBehind,
    picked_rows,
    places_of,
    rows_of,
    shape_of_rows,
    unshaped,
)
from passes.carried.places.joins import find_join
from passes.carried.places.range_reads import find_ranges
from passes.carried.places.read_place import find_joined, formed
from passes.graph.made import operands, through
from passes.numbers.integers import Linear
from passes.reading.facts import LoopFacts
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
    is_read_back = updates in dependent_values(body, inner)
    if wide and is_read_back:
        return _joined_slice(updates, columns, carried, facts)
    if not is_read_back and any(column.is_constant for column in columns):
        return None
    if len(wide) > 1:
        return SliceWrite(indices, updates, "stacked", (), *own)
    rest = AxesBehind(inner, len(columns), rank, evaluator)
    if wide:
        places, nodes = places_of(columns, wide[0])
        rows, more = rows_of(updates, wide[0], rest, body, evaluator)
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
        value = unshaped(updates, body)
    value, made = rest.cell(value, broadcasts=reduction != "none")
    kind: Literal["stacked"] = "stacked"
    points = tuple(column.root for column in columns)
    how = (kind, (*nodes, *made), *own, reduction, len(columns), points)
    return SliceWrite(places, value, *how)


def _joined_slice(
    updates: ir.Value, columns: Sequence[Column], carried: Carried, facts: LoopFacts
) -> SliceWrite | None:
    """Return what is joined to the places of one range, which are read: ``s[:n, 0] += v``."""
    body, evaluator, inner = facts.scope, facts.evaluator, carried.inner
    value = through(updates, ["Reshape", "Expand"], body)
    joins = find_join(value, inner, body, evaluator.dtype(inner))
    ranges = find_ranges(columns, {inner}, carried.initial, body, evaluator)
    rank, wide = evaluator.rank(carried.initial), [c for c in columns if not c.is_point]
    if joins is None or ranges is None or rank is None or len(wide) != 1:
        return None
    if any(c.is_point and c.start is not None and c.start.step for c in columns):
        return None  # within a row of each iteration's own nothing is added up
    own = 1 + rank - len(columns)
    box = box_of(joins.read, inner, facts, rank) if evaluator.rank(joins.read) == own else None
    delta, negated = joins.signed()
    size = evaluator.rank(joins.delta)
    if box is None or not is_box(ranges[0], box, facts) or size is None or size > own:
        return None
    rest = AxesBehind(inner, len(columns), rank, evaluator)
    columns, constants = as_numbers(columns)
    places, nodes = places_of(columns, wide[0])
    shape, more = shape_of_rows(wide[0], rest)
    picked: list[ir.Node] = []
    if size == own:
        delta, picked = picked_rows(delta, wide[0])
    rows = added("Expand", [delta, shape])
    made = (*constants, *nodes, *negated, *picked, *more, rows)
    how = (None, 1, None, joins.reduction, len(columns))
    return SliceWrite(places, rows.outputs[0], "concatenated", made, *how)


def _own_place(columns: Sequence[Column]) -> tuple[Linear | None, int, int | None]:
    """Return where the places of one iteration begin that those of no other one reach.

    Returns:
        The number, how many positions may follow it, and along which axis.
    """
    for axis, column in enumerate(columns):
        start, size = column.start, column.size
        if start is not None and size is not None and abs(start.step) >= size > 0:
            return start, size, axis
    return None, 1, None


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
