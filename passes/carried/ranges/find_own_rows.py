"""Finds writes to ranges within a row, or a column, that is each iteration's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.joined import covers
from passes.carried.pattern import added, added_integers, path_through
from passes.carried.places.boxes import box_of, is_box
from passes.carried.places.columns import Column
from passes.carried.places.range_reads import Range
from passes.carried.ranges.own_rows import OwnRows, OwnWrite
from passes.carried.ranges.range_marks import Marked
from passes.carried.ranges.write_reader import WriteReader
from passes.graph.builder import END
from passes.graph.made import made_by, operand, skip_identities, through
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.written_numbers import is_writable
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_own_rows"]

_JOINS = ("Add", "Sub", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor")
"""Operators of two operands that cannot fail, whatever these hold."""


def find_own_rows(
    carried: Carried, facts: LoopFacts, typing: Typing, *, is_last: bool = False
) -> OwnRows | None:
    """Return the writes to a row of each iteration's own that no single scatter can join.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing.
        is_last: Whether all other patterns were tried, which take less where they apply.
    """
    reader = _OwnReader(carried, facts, typing)
    if not reader.read_all():
        return None
    axis = next((at for at, _ in enumerate(reader.columns[0]) if _is_own(reader, at)), None)
    if axis is None:
        return None
    is_open = any(map(_is_open, reader.columns, reader.writes))
    if not (is_open or is_last or len(reader.columns) > 1):
        return None
    index = reader.columns[0][axis].start
    assert index is not None
    writes = tuple(_turned(one, axis) for one in reader.writes)
    how = (reader.dtype, reader.is_sized, index, axis)
    return OwnRows(carried, reader.terms, writes, *how, nodes=tuple(reader.nodes))


def _is_own(reader: _OwnReader, axis: int) -> bool:
    """Whether all writes of an iteration name an axis by its own number."""
    index = reader.columns[0][axis].start
    if index is None or index.coefficient(ITERATION) != 1:
        return False
    if not is_writable(index.replace({ITERATION: Linear(0)})):
        return False
    own = [columns[axis] for columns in reader.columns if axis < len(columns)]
    is_named = len(own) == len(reader.columns)
    return is_named and all(one.is_point and one.start == index for one in own)


def _is_open(columns: Sequence[Column], one: OwnWrite) -> bool:
    """Whether it is not known how many places an iteration writes to, beside all of one axis."""
    wide = [column for column in columns if not column.is_point]
    bounded = [c for c, r in zip(columns, one.ranges, strict=False) if r.end is not None]
    return any(c.size is None for c in (wide if len(wide) > 1 else bounded))


def _turned(one: OwnWrite, axis: int) -> OwnWrite:
    """Return a write with the axis of the row in front, where it has no range."""
    order = [axis, *(at for at in range(len(one.ranges)) if at != axis)]
    ranges = (Marked(), *(one.ranges[at] for at in order[1:]))
    return dataclasses.replace(one, ranges=ranges, axes=tuple(order.index(a) for a in one.axes))


class _OwnReader(WriteReader[OwnWrite]):
    def write_of(
        self, node: ir.Node, columns: Sequence[Column], ranges: Sequence[Range]
    ) -> OwnWrite | None:
        """Return a write of one number, or row, or of a box; it may be joined to what is there."""
        named = 1 + max((at for at, r in enumerate(ranges) if r.start is not None), default=-1)
        if not named:
            return None
        columns, ranges = columns[:named], ranges[:named]
        wide = [at for at, one in enumerate(columns) if not one.is_point]
        value, join, is_second = self.one_row(node, columns), "", False
        if value is None or not self.is_free(value):
            joins = self._joined(node, ranges, len(wide))
            value = self._value(node, len(wide) + self.rank - named) if joins is None else joins[0]
            join, is_second = ("", False) if joins is None else joins[1:]
        rank = None if value is None else self.facts.evaluator.rank(value)
        if value is None or rank is None or not self.is_free(value):
            return None
        beside = rank - (self.rank - len(columns))
        if beside > len(wide):
            return None
        if beside > 0:
            axes, updates = wide[len(wide) - beside :], operand(node, 2)
            made = self._box(value, axes, ranges, updates, is_joined=bool(join))
        else:
            one = self.one_for_all(value, ranges)
            made = None if one is None else OwnWrite(one.ranges, one.number, one.term)
        return made and dataclasses.replace(made, join=join, is_second=is_second)

    def marked(self, ranges: Sequence[Range]) -> tuple[Marked, ...]:
        """Return which terms bound the range along each axis; none where it begins with it."""
        evaluator = self.facts.evaluator
        starts = [None if r.end and evaluator.integer(r.start) == 0 else r.start for r in ranges]
        pairs = zip(starts, ranges, strict=True)
        return tuple(Marked(self.bound(start), self.bound(r.end)) for start, r in pairs)

    def _joined(
        self, node: ir.Node, ranges: Sequence[Range], wide: int
    ) -> tuple[ir.Value, str, bool] | None:
        """Return what is joined to the box that is written, how, and whether that is in front."""
        scope = self.facts.scope
        value = through(operand(node, 2), ["Reshape", "Expand"], scope)
        made = made_by(value, *_JOINS, body=scope)
        path = None if made is None else path_through(made, self.dependent)
        if made is None or path is None or len(path[1]) != 1:
            return None
        read = made.inputs[path[0]]
        assert read is not None
        if self.facts.evaluator.rank(read) != wide + self.rank - len(ranges):
            return None
        box = box_of(read, skip_identities(operand(node, 0)), self.facts, self.rank)
        if box is None or not is_box(ranges, box, self.facts):
            return None
        return path[1][0], made.op_type, path[0] == 1

    def _value(self, node: ir.Node, rank: int) -> ir.Value | None:
        """Return the box that is written, of some rank, perhaps before it is expanded."""
        updates, scope = skip_identities(operand(node, 2)), self.facts.scope
        value, evaluator = through(updates, ["Reshape"], scope), self.facts.evaluator
        made = made_by(value, "Expand", body=scope)
        if made is not None:
            return skip_identities(operand(made, 0)) if evaluator.rank(value) == rank else None
        return value if value is updates and evaluator.rank(value) == rank else None

    def _box(
        self,
        value: ir.Value,
        axes: Sequence[int],
        ranges: Sequence[Range],
        updates: ir.Value,
        *,
        is_joined: bool,
    ) -> OwnWrite | None:
        """Return the write of a value for each position along some axes.

        None where an iteration writes as many as any other one: a scatter of these takes less.
        """
        dims, count = self.typing.dims(value), len(axes)
        if dims is None:
            return None
        is_proven = covers(self.typing, self.carried.initial, dims[count:])
        if not is_proven and (count > 1 or is_joined or value is not skip_identities(updates)):
            return None  # that it is not expanded to each place is proven when all types are known
        if not is_joined and all(isinstance(dim, int) for dim in dims[:count]):
            return None
        zero, many = added_integers(0), added_integers(count)
        shape = added("Shape", [value])
        bounds = (node.outputs[0] for node in (zero, many))
        sizes = added("Slice", [shape.outputs[0], *bounds])
        self.nodes += [zero, many, shape, sizes]
        if count > 1:
            value = self._flat(value, shape.outputs[0], sizes.outputs[0], many.outputs[0])
        self.is_sized = True
        term = self.term(value, kind="concatenated")
        return OwnWrite(
            self.marked(ranges), None, term, sizes=self.term(sizes.outputs[0]), axes=tuple(axes)
        )

    def _flat(self, value: ir.Value, shape: ir.Value, sizes: ir.Value, many: ir.Value) -> ir.Value:
        """Return a value with its first axes as one."""
        end = added_integers(END)
        count = added("ReduceProd", [sizes], {"keepdims": 1})
        rest = added("Slice", [shape, many, end.outputs[0]])
        whole = added("Concat", [count.outputs[0], rest.outputs[0]], {"axis": 0})
        flat = added("Reshape", [value, whole.outputs[0]], {"allowzero": 1})
        self.nodes += [end, count, rest, whole, flat]
        return flat.outputs[0]
