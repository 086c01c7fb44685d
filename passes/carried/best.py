"""The best value so far, what belongs to it, and the last value where a condition holds.

All three take row 0, the initial value, or the row of one iteration. Which one is the position of
a hit: for values ``[3, 1, 3]`` onto the initial value 2 the rows are ``[2, 3, 1, 3]``, the hits of
a maximum are ``[0, 1, 0, 1]``, and the first or the last hit wins as the comparison is strict or
not.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.filled import begun, filled, rows_of
from passes.carried.hits import Hits
from passes.carried.pattern import (
    FLOATS,
    Joined,
    Pattern,
    Term,
    covers,
    dependent_values,
    same_dims,
)
from passes.carried.running import running, total_of
from passes.carried.selections import Selection, find_selection, hoist
from passes.carried.weighed import weigh_losers
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import subgraphs, with_subgraphs
from passes.graph.made import made_by, operands, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["Best", "Chosen", "find_best", "find_chosen"]

_BETTER = {
    "Greater": ("Max", True),
    "GreaterOrEqual": ("Max", False),
    "Less": ("Min", True),
    "LessOrEqual": ("Min", False),
}
"""For each comparison of a new value with the old one: what wins, and whether a tie keeps it."""

_TURNED = {
    "Greater": "Less",
    "Less": "Greater",
    "GreaterOrEqual": "LessOrEqual",
    "LessOrEqual": "GreaterOrEqual",
}


@dataclasses.dataclass(frozen=True)
class Chosen(Pattern):
    """A carried value that the row of one iteration replaces.

    Attributes:
        carried: Where it stands.
        terms: What says which row, and the rows.
        hits: Which rows count.
        name: What the report calls it.
        nodes: What computes the rows beside the body.
        speculated: The nodes of branches that the map runs in all iterations.
        weighs: Whether the rows that are not taken are multiplied by 0 and added.
    """

    carried: Carried
    terms: tuple[Term, ...]
    hits: Hits
    name: str
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()
    weighs: bool = False

    def write(self, joined: Joined) -> ir.Value:
        """Record the row that won."""
        if joined.is_collected:
            return joined.last_of(self._whole(joined))
        builder, typing, initial = joined.builder, joined.typing, self.carried.initial
        asked, rows = joined.values[0], joined.values[-1]
        dims = typing.dims(initial)
        if self._spreads(joined):
            return self._spread(joined)
        known = [same_dims(typing, initial, joined.types[-1].dims)]
        if self.hits.carried is not None:
            known.append(same_dims(typing, self.hits.carried.initial, joined.types[0].dims))
        is_scalar = self.hits.is_whole or joined.types[0].dims == ()
        if not is_scalar:
            known.append(same_dims(typing, initial, joined.types[0].dims))
        if dims is None or not all(known):
            detail = f"'{self.carried.inner.name}' is not proven to keep its shape"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.carried.next.producer())
        position = self.hits.position(joined, asked)
        first = builder.op("Unsqueeze", [initial, builder.ints(0)])
        whole = builder.op("Concat", [first, rows], {"axis": 0})
        found = self._row_at(builder, whole, position, is_scalar=is_scalar)
        if self.weighs:
            return weigh_losers(joined, found, whole, position, len(dims))
        return found

    def _spreads(self, joined: Joined) -> bool:
        """Whether each element of a larger tensor has a condition, and takes one number."""
        if self.hits.carried is not None or self.hits.is_whole or self.weighs or self.hits.mark:
            return False
        initial, (asked, rows) = self.carried.initial, joined.types
        is_one = asked.dims != () and rows.dims == () and joined.typing.dims(initial) != ()
        return is_one and covers(joined.typing, initial, asked.dims)

    def _spread(self, joined: Joined) -> ir.Value:
        """Record for each element the number of the row that won, or what it was at first."""
        builder, initial = joined.builder, self.carried.initial
        asked, rows = joined.values
        position = self.hits.position(joined, asked)
        spare = builder.op("Cast", [builder.ints(0)], {"to": int(self._dtype(joined))})
        table = builder.op("Concat", [spare, rows], {"axis": 0})
        found = builder.op("Gather", [table, position], {"axis": 0})
        won = builder.op("Greater", [position, builder.scalar(0)])
        if self._dtype(joined) != ir.DataType.BOOL:
            return builder.op("Where", [won, found, initial])
        kept = builder.op("And", [builder.op("Not", [won]), initial])
        return builder.op("Or", [builder.op("And", [won, found]), kept])

    def _dtype(self, joined: Joined) -> ir.DataType:
        dtype = joined.typing.dtype(self.carried.initial)
        assert dtype is not None
        return dtype

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the values of all iterations are rows up to the last one that counted."""
        is_last = self.hits.extreme is None and not self.hits.takes_first
        return is_last and not self.weighs

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the values of all iterations."""
        return rows_of(joined.builder, self._whole(joined), is_after=is_after)

    def _whole(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations."""
        return joined.once(self.carried.inner, lambda: self._filled(joined))

    def _filled(self, joined: Joined) -> ir.Value:
        is_whole, last = self.hits.is_whole, len(self.terms) - 1
        given = begun(joined, self.carried, 0, last, is_whole=is_whole)
        return filled(joined.builder, given)

    def _row_at(
        self, builder: Builder, whole: ir.Value, position: ir.Value, *, is_scalar: bool
    ) -> ir.Value:
        """Record the row of one place, or for each element that of its own place."""
        if is_scalar:
            return builder.op("Gather", [whole, position], {"axis": 0})
        at = builder.op("Unsqueeze", [position, builder.ints(0)])
        found = builder.op("GatherElements", [whole, at], {"axis": 0})
        return builder.op("Squeeze", [found, builder.ints(0)])


@dataclasses.dataclass(frozen=True)
class Best(Chosen):
    """The best value so far; NaN is never better."""

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the best values of all iterations are running extremes."""
        return not self.weighs

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the running extremes of what is not NaN; an initial NaN stays."""
        return running(joined, self.carried, *self._compared(joined), is_after=is_after)

    def write(self, joined: Joined) -> ir.Value:
        """Record the best value; where the values of all iterations are read, the last of them."""
        if joined.is_collected:
            return total_of(joined, self.carried, *self._compared(joined))
        return super().write(joined)

    def _compared(self, joined: Joined) -> tuple[ir.Value, str]:
        """Record what is compared in each iteration; the operator that compares it."""
        (rows,), initial, extreme = joined.values, self.carried.initial, self.hits.extreme
        assert extreme is not None
        if not same_dims(joined.typing, initial, joined.types[0].dims):
            detail = f"'{self.carried.inner.name}' is not proven to keep its shape"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.carried.next.producer())
        return self.hits.without_nan(joined.builder, rows), extreme


def find_best(carried: Carried, iteration: Iteration, typing: Typing) -> Best | None:
    """Return how a carried value keeps the best one, None if it does not."""
    selection = find_selection(carried.next, iteration.body, weighed=True)
    if selection is None or selection.other is not carried.inner:
        return None
    dependent = dependent_values(iteration.body, carried.inner)
    if selection.chosen in dependent or not _is_of(selection.chosen, iteration.body):
        return None
    node = made_by(selection.condition, *_BETTER, body=iteration.body)
    if node is None:
        return None
    one, other = map(skip_identities, operands(node))
    op_type = node.op_type
    if one is carried.inner:
        one, other, op_type = other, one, _TURNED[op_type]
    dtype = typing.dtype(carried.initial)
    if one is not selection.chosen or other is not carried.inner or dtype not in _TYPES:
        return None
    extreme, takes_first = _BETTER[op_type]
    if selection.weighs and not takes_first:
        return None
    term = Term(selection.chosen)
    is_whole = selection.is_whole or typing.dims(carried.initial) == ()
    hits = Hits(carried, term, extreme, takes_first, dtype, is_whole, weighs=selection.weighs)
    name = "best so far (maximum)" if extreme == "Max" else "best so far (minimum)"
    return Best(carried, (term,), hits, name, weighs=selection.weighs)


_TYPES = FLOATS | {ir.DataType.INT32, ir.DataType.INT64}


def find_chosen(
    carried: Carried, iteration: Iteration, best: list[tuple[Selection, Best]]
) -> Chosen | None:
    """Return which iteration's value a carried value takes, None if that is not known.

    Args:
        carried: The carried value.
        iteration: The Loop or Scan.
        best: The best values so far of the same Loop, and how each is chosen.
    """
    selection = find_selection(carried.next, iteration.body, weighed=True)
    if selection is None or selection.other is not carried.inner:
        return None
    dependent = dependent_values(iteration.body, carried.inner)
    if selection.chosen in dependent:
        return None
    (chosen,), nodes, pairs = hoist([selection.chosen], selection.branches)
    rows, beside = Term(chosen), (tuple(nodes), tuple(pairs))
    condition = skip_identities(selection.condition)
    for known, one in best:
        if skip_identities(known.condition) is condition and one.carried is not carried:
            name = "value of the best so far"
            return Chosen(
                carried, (one.hits.term, rows), one.hits, name, *beside, selection.weighs
            )
    if condition in dependent:
        return None
    term = Term(selection.condition)
    hits = Hits(None, term, None, False, ir.DataType.BOOL, selection.is_whole)
    return Chosen(
        carried,
        (term, rows),
        hits,
        "last value where a condition holds",
        *beside,
        selection.weighs,
    )


def _is_of(value: ir.Value, body: ir.Graph) -> bool:
    """Whether a value is known outside of the branches of an If of a body."""
    node = value.producer()
    return node is None or node.graph is body or not _is_inside(node, body)


def _is_inside(node: ir.Node, body: ir.Graph) -> bool:
    graphs = (inner for outer in body for _, inner in subgraphs(outer))
    return any(node.graph is graph for inner in graphs for graph in with_subgraphs(inner))
