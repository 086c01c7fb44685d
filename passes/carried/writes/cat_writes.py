"""Rows that take the place of others: ``s = Concat(s[:i], r_i, s[i + 1:])``.

With ``i = c, c + 1, ...`` the result of n iterations is ``Concat(s[:c], r_0, .., s[c + n:])``.
That holds beyond the end, too, where such a Concat appends: ``s[:i]`` is all of ``s`` there.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.lists.appends import fitting_rows, rows_of
from passes.carried.pattern import Pattern, dependent_values
from passes.decisions import Code
from passes.graph.builder import END, Builder
from passes.graph.made import made_by, operands, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import Bounds, slice_of
from passes.numbers.written_numbers import is_writable, write_number
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["CatWrite", "find_cat_write"]


@dataclasses.dataclass(frozen=True)
class CatWrite(Pattern):
    """A carried tensor; each iteration replaces its next rows.

    Attributes:
        terms: The rows.
        axis: Along which axis.
        width: How many rows an iteration replaces.
        first: Where the first one begins.
    """

    axis: int
    width: int
    first: Linear
    name = "carried Concat of slices"
    grows = True
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record the initial rows in front, those of all iterations, and the initial ones behind.

        Raises:
            NotAMapError: An iteration is not proven to have as many rows as it replaces.
        """
        builder, initial, (rows,) = joined.builder, self.carried.initial, joined.values
        rank, dims = joined.typing.rank(initial), joined.types[0].dims
        own = None if dims is None else [*dims]
        if own is not None and self.terms[0].kind == "stacked":
            own.insert(self.axis, 1)
        if own is None or rank != len(own) or own[self.axis] != self.width:
            detail = f"'{self.carried.inner.name}' is not proven to gain as many rows as it loses"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        rows = fitting_rows(joined, initial, rows, own, self.axis)
        first = write_number(builder, self.first)
        behind = builder.weighted_sum([(joined.trips.write(builder), self.width)], 0)
        parts = [rows]
        if self.first != Linear(0):
            behind = builder.op("Add", [first, behind])
            parts.insert(0, self._cut(builder, builder.ints(0), first))
        parts.append(self._cut(builder, behind, builder.ints(END)))
        return builder.op("Concat", parts, {"axis": self.axis})

    def _cut(self, builder: Builder, start: ir.Value, end: ir.Value) -> ir.Value:
        inputs = [self.carried.initial, start, end, builder.ints(self.axis)]
        return builder.op("Slice", inputs)


def find_cat_write(carried: Carried, facts: LoopFacts) -> CatWrite | None:
    """Return the rows of a carried tensor that each iteration replaces, None if it is more."""
    node = made_by(carried.next, "Concat", body=facts.scope)
    rank = facts.evaluator.rank(carried.initial)
    if node is None or len(node.inputs) < 3 or not rank:
        return None
    front, *rows, back = operands(node)
    axis = node.attributes.get_int("axis", 0) % rank
    before, behind = (_cut(v, carried, facts, axis, rank) for v in (front, back))
    if before is None or behind is None:
        return None
    if not dependent_values(facts.scope, carried.inner).isdisjoint(rows):
        return None
    width = before.end.coefficient(ITERATION)
    begin = before.end.replace({ITERATION: Linear(0)})
    if before.start.number != 0 or not behind.reaches_end:
        return None
    if width < 1 or (behind.start - before.end).number != width:
        return None
    if not is_writable(begin) or not is_nonnegative(begin):
        return None
    term, nodes = rows_of(rows, facts.scope, axis)
    return CatWrite(carried, (term,), axis, width, begin, nodes=nodes)


def _cut(
    value: ir.Value, carried: Carried, facts: LoopFacts, axis: int, rank: int
) -> Bounds | None:
    """Return where a Slice of a carried tensor along one axis begins and ends, or None."""
    found: Bounds | None = None
    value = skip_identities(value)
    while value is not carried.inner:
        cut = slice_of(value, facts.evaluator, facts.scope)
        if cut is None:
            return None
        whole, bounds = cut
        if not bounds.is_whole:
            if found is not None or bounds.axis % rank != axis:
                return None
            found = bounds
        value = skip_identities(whole)
    return found
