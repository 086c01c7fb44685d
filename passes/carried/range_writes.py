"""Writes of one number, or one row, to ranges of a carried tensor: ``s[.., a:b, c:d] = v``.

The bounds are numbers of each iteration, such as those that offsets give, and the ranges of two
iterations may overlap. Which iteration was the last to write to a place is found for all places
at once.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.columns import find_columns
from passes.carried.pattern import Joined, Pattern, Term, covers, dependent_values, operator
from passes.carried.range_marks import Marked, covered_places, last_writers, rows_of_writers
from passes.carried.range_reads import Range, find_ranges
from passes.carried.slice_writes import find_slice_write
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.reading.facts import LoopFacts, skip_identities
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["RangeWrite", "find_range_write"]


@dataclasses.dataclass(frozen=True)
class RangeWrite(Pattern):
    """A carried tensor of which each iteration writes one range along each of some axes.

    Attributes:
        carried: Where it stands.
        terms: The bounds, and what is written if it is not the same in all iterations.
        ranges: For each axis the numbers of the terms that are its start and its end.
        number: What is written in all iterations; None if the last term is.
        axis: Along which axis each position gets a row of its own; None if all get the same.
        dtype: The element type.
        nodes: What computes the terms beside the body.
        needs_sizes: Whether a term has sizes that have to be right where there are no iterations.
    """

    carried: Carried
    terms: tuple[Term, ...]
    ranges: tuple[Marked, ...]
    number: np.ndarray | ir.Value | None
    axis: int | None
    dtype: ir.DataType
    nodes: tuple[ir.Node, ...] = ()
    needs_sizes: bool = False
    name = "carried write to ranges"

    def write(self, joined: Joined) -> ir.Value:
        """Record the initial tensor, and at each place what was written there last."""
        builder, initial = joined.builder, self.carried.initial
        rank = joined.typing.rank(initial)
        if rank is None:
            detail = f"nothing tells the rank of '{self.carried.inner.name}'"
            raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
        rest = rank - len(self.ranges)
        if self.number is None:
            owner = last_writers(joined, initial, self.ranges)
            written = self._picked(joined, owner, rest)
            is_written = builder.op("Greater", [owner, builder.scalar(0)])
        else:
            is_written = covered_places(joined, initial, self.ranges)
            given = self.number
            written = given if isinstance(given, ir.Value) else builder.constant(given)
        if rest:
            behind = builder.ints(*range(len(self.ranges), rank))
            is_written = builder.op("Unsqueeze", [is_written, behind])
        return self._chosen(builder, is_written, written)

    def check_shape(self, joined: Joined) -> None:
        """What is written to keeps its shape."""

    def _picked(self, joined: Joined, owner: ir.Value, rest: int) -> ir.Value:
        """Record for each place what its last iteration writes, anything where there is none.

        Raises:
            NotAMapError: What is written is not proven to be one row.
        """
        builder, rows, dims = joined.builder, joined.values[-1], joined.types[-1].dims
        initial = self.carried.initial
        is_row = dims is not None and len(dims) <= rest and covers(joined.typing, initial, dims)
        if dims is not None and self.axis is not None:
            dims = dims[1:]
            whole = joined.typing.dims(initial) or ()
            is_row = len(dims) == rest and covers(joined.typing, initial, dims)
            is_row &= whole[len(self.ranges) :] == dims
            owner = rows_of_writers(joined, initial, self.ranges, self.axis, owner)
        if dims is None or not is_row:
            detail = f"what is written to '{self.carried.inner.name}' may be more than one row"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        one_row = builder.ints(1)
        if dims:
            behind = [builder.ints(1), builder.ints(int(np.iinfo(np.int64).max))]
            sizes = builder.op("Slice", [builder.op("Shape", [rows]), *behind])
            one_row = builder.op("Concat", [one_row, sizes], {"axis": 0})
        none = builder.constant(np.zeros((), self.dtype.numpy()))
        spare = builder.op("Expand", [none, one_row])
        table = builder.op("Concat", [spare, rows], {"axis": 0})
        if len(dims) < rest:
            beside = builder.ints(*range(1, 1 + rest - len(dims)))
            table = builder.op("Unsqueeze", [table, beside])
        return builder.op("Gather", [table, owner], {"axis": 0})

    def _chosen(self, builder: Builder, flag: ir.Value, written: ir.Value) -> ir.Value:
        """Record a choice; onnxruntime has no Where of booleans."""
        initial = self.carried.initial
        if self.dtype != ir.DataType.BOOL:
            return builder.op("Where", [flag, written, initial])
        kept = builder.op("And", [builder.op("Not", [flag]), initial])
        return builder.op("Or", [builder.op("And", [flag, written]), kept])


def find_range_write(carried: Carried, facts: LoopFacts, typing: Typing) -> RangeWrite | None:
    """Return the ranges of a carried tensor that each iteration writes one number or row to."""
    body, evaluator = facts.iteration.body, facts.evaluator
    node = operator(skip_identities(carried.next), body)
    if node is None or node.op_type != "ScatterND" or len(node.inputs) != 3:
        return None
    data, indices, updates = node.inputs
    if data is None or indices is None or updates is None:
        return None
    if (node.attributes.get_string("reduction", "none") or "none") != "none":
        return None
    rank = evaluator.rank(carried.initial)
    columns = find_columns(indices, body, evaluator)
    if skip_identities(data) is not carried.inner or columns is None or rank is None:
        return None
    if len(columns) > rank or all(column.is_point for column in columns):
        return None
    dtype = typing.dtype(carried.initial)
    found = find_ranges(columns, carried.inner, carried.initial, body, evaluator)
    if found is None or dtype is None or dtype == ir.DataType.STRING:
        return None
    ranges, nodes = found
    bounds = {b: None for r in ranges for b in (r.start, r.end) if b is not None}
    given, axis = _given(updates, rank - len(columns), body, facts), None
    if given is None:
        rows = find_slice_write(node, carried.inner, rank, body, evaluator)
        if rows is None or rows.kind != "concatenated":
            return None
        given, (axis,) = rows.updates, (at for at, r in enumerate(ranges) if r.end is not None)
        nodes = [*nodes, *rows.nodes]
    read = {v for one in nodes for v in one.inputs if v is not None and one.op_type != "Shape"}
    if not dependent_values(body, carried.inner).isdisjoint({*bounds, *read, given}):
        return None
    number = None if axis is not None else _fixed(given, facts)
    terms = list(map(Term, bounds))
    if number is None:
        terms.append(Term(given, "stacked" if axis is None else "concatenated"))
    sized = number is None and evaluator.rank(given) != 0
    places = {value: at for at, value in enumerate(bounds)}
    marked = tuple(_marked(r, places) for r in ranges)
    return RangeWrite(carried, tuple(terms), marked, number, axis, dtype, tuple(nodes), sized)


def _marked(one: Range, places: dict[ir.Value, int]) -> Marked:
    start, end = (None if b is None else places[b] for b in (one.start, one.end))
    return Marked(start, end)


def _fixed(value: ir.Value, facts: LoopFacts) -> np.ndarray | ir.Value | None:
    """Return what a value is in all iterations, None if that is not known."""
    array = constant_value(value)
    if array is not None:
        return array.reshape(()) if array.size == 1 else None
    is_number = facts.evaluator.rank(value) == 0
    return value if is_number and value not in facts.inside else None


def _given(updates: ir.Value, rest: int, body: ir.Graph, facts: LoopFacts) -> ir.Value | None:
    """Return the one number, or the one row of all named places, that is written."""
    value = skip_identities(updates)
    node = operator(value, body)
    while node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:
        value = skip_identities(node.inputs[0])
        node = operator(value, body)
    if node is None or node.op_type != "Expand" or node.inputs[0] is None:
        return None
    given = skip_identities(node.inputs[0])
    rank = facts.evaluator.rank(given)
    return given if rank is not None and rank <= rest else None
