"""Finds writes to ranges of a carried tensor: a chain of ScatterNDs to grids of places."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.places.columns import Column
from passes.carried.places.range_reads import Range
from passes.carried.places.slice_writes import find_slice_write
from passes.carried.ranges.range_writes import One, RangeWrite
from passes.carried.ranges.write_reader import WriteReader
from passes.numbers.integers import ITERATION
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_range_write"]


def find_range_write(carried: Carried, facts: LoopFacts, typing: Typing) -> RangeWrite | None:
    """Return the ranges of a carried tensor that each iteration writes one number or row to."""
    reader = _RangeWriteReader(carried, facts, typing)
    if not reader.read_all():
        return None
    if all(c.is_point for columns in reader.columns for c in columns):
        return None
    if any(_grows(columns) for columns in reader.columns):
        return None
    how = (tuple(reader.writes), reader.dtype, reader.is_sized, reader.moves)
    return RangeWrite(carried, reader.terms, *how, nodes=tuple(reader.nodes))


def _grows(columns: Sequence[Column]) -> bool:
    """Whether the tensor has a row for each iteration, so that its places squared would count."""
    starts = [column.start for column in columns if column.is_point and len(columns) > 1]
    return any(start is not None and start.coefficient(ITERATION) for start in starts)


class _RangeWriteReader(WriteReader[One]):
    def write_of(
        self, node: ir.Node, columns: Sequence[Column], ranges: Sequence[Range]
    ) -> One | None:
        """Return a write of one number or row, or of one for each position of a range."""
        if all(one.start is None for one in ranges):
            return None  # all of the tensor
        given = self.one_row(node, columns)
        if given is not None:
            return self.one_for_all(given, ranges)
        rows = find_slice_write(node, self.carried, self.facts)
        axis = next((at for at, r in enumerate(ranges) if r.end is not None), None)
        if rows is None or rows.kind != "concatenated" or axis is None:
            return None
        if not self.is_free(rows.updates, *rows.nodes):
            return None
        self.nodes += rows.nodes
        self.is_sized |= self.facts.evaluator.rank(rows.updates) != 0
        term = self.term(rows.updates, kind="concatenated")
        return One(self.marked(ranges), None, term, axis)
