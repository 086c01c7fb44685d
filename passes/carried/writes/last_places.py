"""Rows written to places, perhaps several to one place: what is written last holds.

``s[2] = a; s[0] = b; s[2] = c`` leaves ``b`` in row 0 and ``c`` in row 2.
"""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from passes.carried.common.row_shapes import as_rows_of
from passes.carried.joined import Joined
from passes.carried.pattern import Term, dependent_values
from passes.carried.places.columns import find_columns
from passes.carried.places.joined_places import as_rows
from passes.carried.places.last_ones import OLDEST_SCATTER, last_ones
from passes.carried.places.range_reads import find_ranges
from passes.carried.places.slice_writes import SliceWrite, find_slice_write, point_of
from passes.carried.writes.find_writes import placed_terms, scattered_terms
from passes.carried.writes.writes import Write
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import are_numbers

__all__ = ["LastWrite", "find_last_write", "scatter_last"]

_FEW = 32
"""How many places of one iteration are sorted faster than a Loop writes to them: measured."""


@dataclasses.dataclass(frozen=True)
class LastWrite(Write):
    """A carried tensor that iterations write to at any places, again and again; see `Write`.

    Attributes:
        is_dear: Whether an iteration may write to many places, which cost more to sort.
        cheap_from: The opset that has something better than to sort them.
        axes: The axes along which one place is named, if all of other axes is written.
    """

    is_dear: bool = False
    cheap_from: int | None = OLDEST_SCATTER
    axes: tuple[int, ...] = ()

    def write(self, joined: Joined) -> ir.Value:
        """Record one scatter of what is written last to each place.

        Raises:
            NotAMapError: Nothing tells along how many axes places are named.
        """
        builder, tensor, dims = joined.builder, self.carried.initial, joined.types[0].dims
        named, rank = dims[-1] if dims else None, joined.typing.rank(tensor)
        if not isinstance(named, int) or named < 1 or rank is None:
            detail = f"nothing tells where '{self.carried.inner.name}' is written to"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.node)
        order = [*self.axes, *(axis for axis in range(rank) if axis not in self.axes)]
        is_turned = order != list(range(rank))
        if is_turned:
            tensor = builder.op("Transpose", [tensor], {"perm": order})
        places, rows = self._flat(joined, named, tensor)
        is_marked = self.is_dear and joined.opset >= OLDEST_SCATTER
        written = scatter_last(builder, tensor, places, rows, named, is_marked=is_marked)
        if not is_turned:
            return written
        inverse = [order.index(axis) for axis in range(rank)]
        return builder.op("Transpose", [written], {"perm": inverse})

    def _flat(self, joined: Joined, named: int, tensor: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Record the places of all iterations, ``[m, named]``, and the rows, ``[m, ..]``."""
        builder, (places, rows) = joined.builder, joined.values
        if len(joined.types[0].dims or ()) + (self.terms[0].kind == "stacked") == 2:
            dims = joined.types[1].dims
            is_told = joined.runs or (dims is not None and are_numbers(dims))
            return places, rows if is_told else as_rows_of(builder, tensor, rows, named)
        many = builder.shape(places, 0, -1)
        count = builder.op("ReduceProd", [many], {"keepdims": 1})
        rest = builder.shape(tensor, named)
        as_listed = builder.op("Concat", [count, builder.ints(named)], {"axis": 0})
        as_many = builder.op("Concat", [count, rest], {"axis": 0})
        return (
            builder.op("Reshape", [places, as_listed], {"allowzero": 1}),
            builder.op("Reshape", [rows, as_many], {"allowzero": 1}),
        )


def scatter_last(
    builder: Builder,
    tensor: ir.Value,
    places: ir.Value,
    rows: ir.Value,
    named: int,
    *,
    is_marked: bool,
) -> ir.Value:
    """Record one scatter of the rows that no later row of the same place follows.

    Args:
        builder: Records it.
        tensor: What is written to.
        places: Where, ``[m, named]``.
        rows: What, ``[m, ..]``.
        named: Along how many axes a place is named.
        is_marked: Whether a scatter tells which row is the last one, and not a sort.
    """
    at, size = as_rows(builder, places, builder.op("Shape", [tensor]), named)
    at = builder.op("Squeeze", [at, builder.ints(1)])
    last = last_ones(builder, at, size if is_marked else None)
    kept = [builder.op("Gather", [value, last], {"axis": 0}) for value in (places, rows)]
    return builder.op("ScatterND", [tensor, *kept])


def find_last_write(carried: Carried, facts: LoopFacts) -> LastWrite | None:
    """Return the writes to a carried tensor; nothing need be known of their places.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
    """
    node = made_by(carried.next, "ScatterND", body=facts.scope)
    if node is None or node.attributes.get_string("reduction", "none") != "none":
        return None
    if skip_identities(operand(node, 0)) is not carried.inner:
        return None
    dependent = dependent_values(facts.scope, carried.inner)
    placed = find_slice_write(node, carried, facts)
    if placed is None:
        terms = scattered_terms(node, operand(node, 2), facts)
        if not dependent.isdisjoint(operands(node)[1:]):
            return None
    else:
        found = placed_terms(placed, dependent)
        if found is None or placed.reduction != "none":
            return None
        column = _find_column(node, carried, placed, facts)
        if column is not None:
            return column
        terms = found
    many = _many(node, facts)
    if terms[0].kind == "stacked" and many is None and not terms[0].is_alike:
        return None
    is_point = placed is not None and terms[0].is_alike
    is_dear = not is_point and (many is None or many > _FEW)
    nodes, named = ((), None) if placed is None else (placed.nodes, placed.named)
    return LastWrite(carried, terms, node, None, nodes=nodes, named=named, is_dear=is_dear)


def _many(node: ir.Node, facts: LoopFacts) -> int | None:
    """Return how many places an iteration writes to, None if that is not known."""
    dims = facts.evaluator.dims(operand(node, 1)) or (None,)
    known = [d for d in dims[:-1] if isinstance(d, int)]
    return math.prod(known) if len(known) == len(dims) - 1 else None


def _find_column(
    node: ir.Node, carried: Carried, placed: SliceWrite, facts: LoopFacts
) -> LastWrite | None:
    """Return a write to one place along some axes and to all of another, None if it is none."""
    body, evaluator = facts.scope, facts.evaluator
    columns = find_columns(operand(node, 1), body, evaluator)
    if columns is None:
        return None
    found = find_ranges(columns, {carried.inner}, carried.initial, body, evaluator)
    axes = tuple(axis for axis, one in enumerate(columns) if one.is_point)
    if found is None or not axes:
        return None
    if any(one.start is not None for at, one in enumerate(found[0]) if at not in axes):
        return None
    rows = placed.updates
    if placed.kind == "stacked":
        rows = through(rows, ["Reshape"], body)
        dims, whole = evaluator.dims(rows), evaluator.dims(carried.initial)
        if whole is None:
            return None
        own = tuple(dim for axis, dim in enumerate(whole) if axis not in axes)
        if dims != own or not all(isinstance(dim, int) for dim in own):
            return None
        if rows in dependent_values(body, carried.inner):
            return None
    place, nodes = point_of([columns[axis] for axis in axes])
    terms = (Term(place), Term(rows, is_alike=True))
    return LastWrite(carried, terms, node, None, nodes=(*placed.nodes, *nodes), axes=axes)
