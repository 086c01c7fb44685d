"""Caches that each iteration writes the next rows to by TensorScatter.

The rows of all iterations stand one behind the other, so that one TensorScatter writes them all.
Where they go around the end of the cache, the last ones that find room in it are what is left.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.uniform import one_number
from passes.carried.joined import Joined, unknown_rank
from passes.carried.lists.appends import fitting_rows
from passes.carried.pattern import Pattern, Term, dependent_values
from passes.graph.builder import END, Builder
from passes.graph.made import either_order, made_by, operands, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.written_numbers import is_writable, write_number
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried

__all__ = ["CacheWrite", "find_cache_write"]


@dataclasses.dataclass(frozen=True)
class CacheWrite(Pattern):
    """A carried cache that each iteration writes rows to, behind those of the iteration before.

    Attributes:
        terms: The rows.
        axis: Along which axis they follow one another.
        first: The position of the first row.
        base: What is added to it for each sample of the batch, ``[B]``; None for nothing.
        mode: Whether rows go around the end of the cache.
    """

    axis: int
    first: Linear
    base: ir.Value | None
    mode: str = "linear"
    name = "carried cache"
    keeps_shape = "as it is made"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record one TensorScatter of all rows.

        Raises:
            NotAMapError: Nothing tells the rank.
        """
        builder, initial, (rows,) = joined.builder, self.carried.initial, joined.values
        dims = joined.types[0].dims
        if dims is None:
            raise unknown_rank(self.carried)
        rows = fitting_rows(joined, initial, rows, dims, self.axis)
        positions = self._positions(builder)
        if self.mode == "circular":
            over = self._rows_too_many(builder, rows)
            rows = builder.op("Slice", [rows, over, builder.ints(END), builder.ints(self.axis)])
            positions = builder.op("Add", [positions, over])
        attributes = {"axis": self.axis, "mode": self.mode}
        return builder.op("TensorScatter", [initial, rows, positions], attributes)

    def _rows_too_many(self, builder: Builder, rows: ir.Value) -> ir.Value:
        """Record how many rows later ones replace, ``[1]``."""
        numbers = []
        for value in (rows, self.carried.initial):
            shape = builder.op("Shape", [value])
            numbers.append(builder.op("Gather", [shape, builder.ints(self.axis)], {"axis": 0}))
        over = builder.op("Sub", numbers)
        return builder.op("Max", [over, builder.ints(0)])

    def _positions(self, builder: Builder) -> ir.Value:
        first = write_number(builder, self.first)
        if self.base is not None:
            return builder.op("Add", [self.base, first])
        return builder.op("Expand", [first, builder.shape(self.carried.initial, 0, 1)])


def find_cache_write(carried: Carried, facts: LoopFacts) -> CacheWrite | None:
    """Return what each iteration writes to the next places of a cache, None if it is no such."""
    body = facts.scope
    node = made_by(carried.next, "TensorScatter", body=body)
    rank = facts.evaluator.rank(carried.initial)
    given = [] if node is None else operands(node)
    if node is None or rank is None or len(given) < 3:
        return None
    data, rows, indices = given
    if skip_identities(data) is not carried.inner:
        return None
    if not dependent_values(body, carried.inner).isdisjoint({rows, indices}):
        return None
    axis = node.attributes.get_int("axis", -2) % rank
    dims, found = facts.evaluator.dims(rows), _steps(indices, facts)
    if found is None or dims is None or len(dims) != rank:
        return None
    number, base = found
    first = number.replace({ITERATION: Linear(0)})
    if not dims[axis] or dims[axis] != number.coefficient(ITERATION) or not is_writable(first):
        return None
    mode = node.attributes.get_string("mode", "linear")
    return CacheWrite(carried, (Term(rows, "concatenated", axis),), axis, first, base, mode)


def _steps(indices: ir.Value, facts: LoopFacts) -> tuple[Linear, ir.Value | None] | None:
    """Return the number that positions have in common, and what is added for each sample."""
    number = one_number(indices, facts.evaluator)
    if number is not None:
        return number, None
    node = made_by(indices, "Add", body=facts.scope)
    for one, other in either_order(node):
        number = one_number(other, facts.evaluator)
        value = facts.evaluator.outside(skip_identities(one))
        is_base = value not in facts.inside and facts.evaluator.rank(value) == 1
        if is_base and number is not None:
            return number, value
    return None
