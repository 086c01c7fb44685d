"""Finds tiles that are written to boxes of a carried tensor, as PyTorch's exporter writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.carried.pattern import FLOATS, Term, dependent_values
from passes.carried.places.boxes import box_of, is_box, is_one, span_of
from passes.carried.places.columns import Column, find_columns
from passes.carried.places.joins import find_join
from passes.carried.places.range_reads import find_ranges
from passes.carried.ranges.tile_places import Side
from passes.carried.ranges.tiles import TileWrite
from passes.graph.made import (
    made_by,
    operand,
    operands,
    shaped,
    skip_identities,
    through,
)
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_tiles"]

_Box = Mapping[int, tuple[ir.Value, ir.Value]]


def find_tiles(carried: Carried, facts: LoopFacts, typing: Typing) -> TileWrite | None:
    """Return the tiles that a carried tensor is written with, None if it is anything else."""
    node = made_by(carried.next, "ScatterND", body=facts.scope)
    dims, dtype = typing.dims(carried.initial), typing.dtype(carried.initial)
    if node is None or dims is None:
        return None
    data, indices, updates = operands(node)
    if skip_identities(data) is not carried.inner or dtype in (None, ir.DataType.STRING):
        return None
    if node.attributes.get_string("reduction", "none") != "none":
        return None
    given = _given(updates, carried, facts, len(dims))
    columns = find_columns(indices, facts.scope, facts.evaluator)
    if given is None or columns is None or not _are(columns, given[1], carried, facts):
        return None
    value, bounds, reduction = given
    spans = {axis: span_of(*pair, facts) for axis, pair in bounds.items()}
    known = {axis: span for axis, span in spans.items() if span is not None and span > 0}
    own = typing.dims(value)
    if len(known) < len(spans) or own is None or not _fits(own, dims, known, typing):
        return None
    ends = [v for pair in bounds.values() for v in pair]
    if not dependent_values(facts.scope, carried.inner).isdisjoint([value, *ends]):
        return None
    terms = (Term(value), *(Term(v, is_alike=True) for v in ends))
    sides = tuple(
        Side(axis, known[axis], 1 + 2 * at, 2 + 2 * at, _is_counted(*bounds[axis], facts))
        for at, axis in enumerate(bounds)
    )
    rounds = reduction in ("add", "mul") and dtype in FLOATS
    index = _own_index(bounds, known, facts) if reduction == "none" else None
    sizes = dict(enumerate(own, len(dims) - len(own)))
    is_whole = all(1 < span == sizes.get(axis) for axis, span in known.items())
    return TileWrite(carried, terms, sides, len(dims), reduction, rounds, index, is_whole)


def _is_counted(start: ir.Value, end: ir.Value, facts: LoopFacts) -> bool:
    """Whether both bounds are known, and count from the start of the axis."""
    numbers = [facts.evaluator.number(v) for v in (start, end)]
    return all(number is not None and is_nonnegative(number) for number in numbers)


def _own_index(box: _Box, spans: Mapping[int, int], facts: LoopFacts) -> tuple[Linear, int] | None:
    """Return where a side begins that meets no side of another iteration, and its length."""
    for axis, (start, _) in box.items():
        number = facts.evaluator.number(start)
        if number is not None and abs(number.step) >= spans[axis]:
            return number, spans[axis]
    return None


def _given(
    updates: ir.Value, carried: Carried, facts: LoopFacts, rank: int
) -> tuple[ir.Value, _Box, str] | None:
    """Return what is written, the box that it is expanded to, and how it is joined."""
    node = made_by(through(updates, ["Reshape"], facts.scope), "Expand", body=facts.scope)
    like = None if node is None else shaped(node.inputs[1], facts.scope)
    box = None if like is None else _sliced_box(like, carried, facts, rank)
    if node is None:
        return None
    value = skip_identities(operand(node, 0))
    dtype = facts.evaluator.dtype(carried.inner)
    joins = find_join(value, carried.inner, facts.scope, dtype)
    if not box or (len(box) < 2 and joins is None):
        return None
    if joins is None:
        return value, box, "none"
    old = _sliced_box(joins.read, carried, facts, rank)
    if old is None or old.keys() != box.keys() or joins.signed()[1]:
        return None
    is_same = all(is_one(v, w, facts) for at in box for v, w in zip(box[at], old[at], strict=True))
    return (joins.delta, box, joins.reduction) if is_same else None


def _sliced_box(value: ir.Value, carried: Carried, facts: LoopFacts, rank: int) -> _Box | None:
    """Return the bounds of the box that Slices alone take of a carried tensor."""
    box = box_of(value, carried.inner, facts, rank) or {}
    sides = {axis: (start, end) for axis, (start, end) in box.items() if end is not None}
    return sides if sides and len(sides) == len(box) else None


def _are(columns: Sequence[Column], box: _Box, carried: Carried, facts: LoopFacts) -> bool:
    """Whether places are those of a box."""
    found = find_ranges(columns, {carried.inner}, carried.initial, facts.scope, facts.evaluator)
    return found is not None and is_box(found[0], dict(box), facts)


def _fits(
    own: tuple[int | str | None, ...],
    dims: tuple[int | str | None, ...],
    spans: dict[int, int],
    typing: Typing,
) -> bool:
    """Whether a value has the size of a box, or one of 1, along each axis, by proof."""
    if len(own) > len(dims):
        return False
    for axis in range(len(dims) - len(own), len(dims)):
        size, whole = own[axis - len(dims)], dims[axis]
        is_whole = size == whole and typing.is_same_number(size)
        if size != 1 and not (size == spans[axis] if axis in spans else is_whole):
            return False
    return True
