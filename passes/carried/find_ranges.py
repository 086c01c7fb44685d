"""Finds writes to ranges of a carried tensor: a chain of ScatterNDs to grids of places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.columns import Column, find_columns
from passes.carried.own_rows import OwnRows
from passes.carried.pattern import Term, dependent_values
from passes.carried.range_marks import Marked
from passes.carried.range_reads import Range, find_ranges
from passes.carried.range_writes import One, RangeWrite
from passes.carried.slice_writes import find_slice_write
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.reading.facts import LoopFacts
from passes.reading.integers import ITERATION, Linear
from passes.reading.iterations import Carried
from passes.reading.written_numbers import is_writable
from passes.typing.value_types import Typing

__all__ = ["find_own_rows", "find_range_write"]


def find_own_rows(carried: Carried, facts: LoopFacts, typing: Typing) -> OwnRows | None:
    """Return the writes to a row of each iteration's own that no single scatter can join."""
    reader = _read(carried, facts, typing)
    if reader is None:
        return None
    firsts = [columns[0] for columns in reader.columns]
    index = firsts[0].start
    if index is None or index.coefficient(ITERATION) != 1:
        return None
    if not is_writable(index.replace({ITERATION: Linear(0)})):
        return None
    if not all(first.is_point and first.start == index for first in firsts):
        return None
    is_grid = any(_is_open_grid(columns) for columns in reader.columns)
    if any(one.axis is not None for one in reader.writes) or not (is_grid or len(firsts) > 1):
        return None
    writes = [One((Marked(), *one.ranges[1:]), one.number, one.term) for one in reader.writes]
    common = (reader.dtype, tuple(reader.nodes), reader.is_sized)
    return OwnRows(carried, reader.terms, tuple(writes), *common, index)


def find_range_write(carried: Carried, facts: LoopFacts, typing: Typing) -> RangeWrite | None:
    """Return the ranges of a carried tensor that each iteration writes one number or row to."""
    reader = _read(carried, facts, typing)
    if reader is None or all(c.is_point for columns in reader.columns for c in columns):
        return None
    if any(_grows(columns) for columns in reader.columns):
        return None
    common = (reader.dtype, tuple(reader.nodes), reader.is_sized)
    return RangeWrite(carried, reader.terms, tuple(reader.writes), *common, reader.moves)


def _is_open_grid(columns: Sequence[Column]) -> bool:
    """Whether places lie along several axes, and how many is not known."""
    wide = [column for column in columns if not column.is_point]
    return len(wide) > 1 and any(column.size is None for column in wide)


def _grows(columns: Sequence[Column]) -> bool:
    """Whether the tensor has a row for each iteration, so that its places squared would count."""
    starts = [column.start for column in columns if column.is_point and len(columns) > 1]
    return any(start is not None and start.coefficient(ITERATION) for start in starts)


def _read(carried: Carried, facts: LoopFacts, typing: Typing) -> _WriteReader | None:
    """Return what an iteration writes, None if that is not all that changes a tensor."""
    body = facts.scope
    rank, dtype = facts.evaluator.rank(carried.initial), typing.dtype(carried.initial)
    if rank is None or dtype is None or dtype == ir.DataType.STRING:
        return None
    chain: list[ir.Node] = []
    value = skip_identities(carried.next)
    while value is not carried.inner:
        node = made_by(value, "ScatterND", body=body)
        if node is None or node.attributes.get_string("reduction", "none") != "none":
            return None
        chain.insert(0, node)
        value = skip_identities(operand(node, 0))
    reader = _WriteReader(carried, facts, rank, dtype, chain)
    return reader if chain and all(map(reader.read, chain)) else None


class _WriteReader:
    """Reads the writes of an iteration.

    Attributes:
        writes: The writes, in order.
        columns: The places of each.
        dtype: The element type of the tensor.
        nodes: What computes the terms beside the body.
        is_sized: Whether a term is more than a number.
        moves: Whether a range moves on with each iteration.
    """

    def __init__(
        self,
        carried: Carried,
        facts: LoopFacts,
        rank: int,
        dtype: ir.DataType,
        chain: Sequence[ir.Node],
    ) -> None:
        self.writes: list[One] = []
        self.columns: list[Sequence[Column]] = []
        self._carried, self._facts, self._rank = carried, facts, rank
        self.dtype = dtype
        self._tensors = {carried.inner, *(node.outputs[0] for node in chain)}
        self._dependent = dependent_values(facts.scope, carried.inner)
        self._terms: dict[Term, int] = {}
        self.nodes: list[ir.Node] = []
        self.is_sized = False
        self.moves = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is needed of all iterations."""
        return tuple(self._terms)

    def read(self, node: ir.Node) -> bool:
        """Read one write; return whether it is one."""
        body, evaluator = self._facts.scope, self._facts.evaluator
        _, indices, updates = operands(node)
        columns = find_columns(indices, body, evaluator)
        if columns is None or len(columns) > self._rank:
            return False
        initial = self._carried.initial
        found = find_ranges(columns, self._tensors, initial, body, evaluator)
        if found is None:
            return False
        ranges, nodes = found
        rest, axis = self._rank - len(columns), None
        given = self._given(updates, rest, is_point=all(c.is_point for c in columns))
        if given is None:
            rows = find_slice_write(node, self._carried, self._facts)
            if rows is None or rows.kind != "concatenated":
                return False
            axis = next((at for at, r in enumerate(ranges) if r.end is not None), None)
            if axis is None:
                return False
            given = rows.updates
            nodes = [*nodes, *rows.nodes]
        bounds = [b for r in ranges for b in (r.start, r.end) if b is not None]
        numbers = (evaluator.number(b) for b in bounds)
        self.moves |= any(n is not None and bool(n.coefficient(ITERATION)) for n in numbers)
        read = {v for n in nodes if n.op_type != "Shape" for v in operands(n)}
        if not self._dependent.isdisjoint({*bounds, *read, given}):
            return False
        number = None if axis is not None else self._fixed(given)
        term = None if number is not None else self._term(given, is_list=axis is not None)
        self.is_sized |= number is None and evaluator.rank(given) != 0
        marked = tuple(self._marked(r) for r in ranges)
        self.nodes += nodes
        self.writes.append(One(marked, number, term, axis))
        self.columns.append(columns)
        return True

    def _term(self, value: ir.Value, *, is_list: bool = False) -> int:
        term = Term(value, "concatenated" if is_list else "stacked")
        return self._terms.setdefault(term, len(self._terms))

    def _marked(self, one: Range) -> Marked:
        start, end = (None if b is None else self._term(b) for b in (one.start, one.end))
        return Marked(start, end)

    def _fixed(self, value: ir.Value) -> np.ndarray | ir.Value | None:
        """Return what a value is in all iterations, None if that is not known."""
        array = constant_value(value)
        if array is not None:
            return array.reshape(()) if array.size == 1 else None
        is_number = self._facts.evaluator.rank(value) == 0
        return value if is_number and value not in self._facts.inside else None

    def _given(self, updates: ir.Value, rest: int, *, is_point: bool) -> ir.Value | None:
        """Return the one number, or the one row of all named places, that is written."""
        body = self._facts.scope
        value = through(updates, ["Reshape"], body)
        if is_point and self._facts.evaluator.rank(value) == 0 == rest:
            return value
        given: ir.Value | None = None
        while (node := made_by(value, "Expand", body=body)) is not None:
            value = skip_identities(operand(node, 0))
            rank = self._facts.evaluator.rank(value)
            given = value if rank is not None and rank <= rest else given
        return given
