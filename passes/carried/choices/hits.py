"""Chooses the value that is left: the initial one, or that of some iteration."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import onnx_ir as ir

from passes.carried.common.widths import EXTREMES, check_width
from passes.carried.joined import Joined
from passes.carried.pattern import FLOATS, Term
from passes.carried.totals.running import running
from passes.carried.totals.weighed import before_it_is_spoilt
from passes.graph.builder import Builder
from passes.numbers.integers import Linear
from passes.numbers.written_numbers import write_number
from passes.reading.iterations import Carried

__all__ = ["Hits"]

_MOST_NUMBERS = 1024
"""A constant row has no more, so that a model stays small."""


@dataclasses.dataclass(frozen=True)
class Hits:
    """Which rows count, of the initial value and all iterations.

    Attributes:
        carried: What the new values are compared with; None where a condition says it.
        term: The new value, or the condition.
        extreme: ``Max`` or ``Min``; None for a condition.
        takes_first: Whether the first hit wins, not the last one.
        dtype: The element type of the values.
        is_whole: Whether one position is that of all elements.
        mark: Where a condition says it and the first hit wins: a carried number, and by which
            comparison with which number it says that there was none before.
        weighs: Whether what is worse is multiplied by 0 and added to what is compared.
    """

    carried: Carried | None
    term: Term
    extreme: str | None
    takes_first: bool
    dtype: ir.DataType
    is_whole: bool
    mark: tuple[Carried, str, Linear] | None = None
    weighs: bool = False

    def position(self, joined: Joined, rows: ir.Value) -> ir.Value:
        """Record the position of the winning row; that of the initial value is 0."""
        builder = joined.builder
        found = self._found(joined, rows)
        is_one = self.carried is None or joined.types[0].dims == ()
        if not self.is_whole or is_one:
            return found
        return builder.op("Reshape", [found, builder.ints()])

    def _found(self, joined: Joined, rows: ir.Value) -> ir.Value:
        builder = joined.builder
        if self.carried is None:
            flags = builder.op("Cast", [rows], {"to": int(ir.DataType.INT32)})
            if self.is_whole and joined.types[0].dims != ():
                flags = builder.op("Reshape", [flags, builder.ints(-1)])
            first = self._before(joined) if self.mark else self._first(joined, flags)
            hits = builder.op("Concat", [first, flags], {"axis": 0})
            return _pick(builder, hits, self.takes_first)
        initial = self.carried.initial
        check_width(joined, self.carried, EXTREMES)
        if self.weighs and self.dtype in FLOATS:
            rows = before_it_is_spoilt(builder, rows, initial, self._worst(builder))
        rows = self.without_nan(builder, rows)
        first = builder.op("Unsqueeze", [initial, builder.ints(0)])
        whole = builder.op("Concat", [first, rows], {"axis": 0})
        winner = joined.reduce(f"Reduce{self.extreme}", whole)
        hits = builder.op("Equal", [whole, winner])
        found = _pick(
            builder, builder.op("Cast", [hits], {"to": int(ir.DataType.INT32)}), self.takes_first
        )
        if self.dtype not in FLOATS:
            return found
        # No value is better than NaN.
        return builder.op("Where", [builder.op("IsNaN", [initial]), builder.scalar(0), found])

    def _first(self, joined: Joined, flags: ir.Value) -> ir.Value:
        """Record a row of true flags, which are those of the initial value."""
        builder = joined.builder
        known = () if self.is_whole else joined.types[0].dims
        sizes = [dim for dim in known or () if isinstance(dim, int)]
        if known is not None and len(sizes) == len(known) and math.prod(sizes) <= _MOST_NUMBERS:
            return builder.constant(np.ones((1, *sizes), np.int32))
        shape = builder.op("Concat", [builder.ints(1), builder.shape(flags, 1)], {"axis": 0})
        value = {"value": ir.tensor(np.array([1], np.int32))}
        return builder.op("ConstantOfShape", [shape], value)

    def taken(self, joined: Joined, rows: ir.Value) -> ir.Value:
        """Record for each iteration whether its row takes the place of the one before."""
        builder = joined.builder
        if self.carried is not None:
            return self._better(joined, self.carried, rows)
        if not self.takes_first:
            return rows
        flags = builder.op("Cast", [rows], {"to": int(ir.DataType.INT64)})
        count = builder.op("CumSum", [flags, builder.scalar(0)])
        if self.mark is not None:
            before = builder.op("Cast", [self._before(joined)], {"to": int(ir.DataType.INT64)})
            count = builder.op("Add", [count, before])
        is_first = builder.op("Equal", [count, builder.scalar(1)])
        return builder.op("And", [rows, is_first])

    def _better(self, joined: Joined, carried: Carried, rows: ir.Value) -> ir.Value:
        """Record which rows beat all before them, or are as good where the last one wins."""
        assert self.extreme is not None
        joined.needs_same_shape(carried)
        builder = joined.builder
        compared = self.without_nan(builder, rows)
        before = running(joined, carried, compared, self.extreme, is_after=False)
        worse = "Less" if self.extreme == "Max" else "Greater"
        if self.takes_first:
            return builder.op(worse, [before, rows])
        is_kept = builder.op(worse, [rows, before])
        if self.dtype not in FLOATS:
            return builder.op("Not", [is_kept])
        either = [builder.op("IsNaN", [value]) for value in (rows, before)]
        return builder.op("Not", [builder.op("Or", [is_kept, builder.op("Or", either)])])

    def without_nan(self, builder: Builder, rows: ir.Value) -> ir.Value:
        """Record the worst value in the place of NaN, which is never better."""
        if self.dtype not in FLOATS:
            return rows
        worst = self._worst(builder)
        return builder.op("Where", [builder.op("IsNaN", [rows]), worst, rows])

    def _worst(self, builder: Builder) -> ir.Value:
        worst = builder.constant(np.array(-np.inf if self.extreme == "Max" else np.inf))
        return builder.op("Cast", [worst], {"to": int(self.dtype)})

    def _before(self, joined: Joined) -> ir.Value:
        """Record, as one row, 1 where the initial value is a hit of its own."""
        assert self.mark is not None
        carried, op_type, limit = self.mark
        builder, initial = joined.builder, carried.initial
        dtype = joined.typing.dtype(initial)
        if limit.number is not None or dtype is None:
            mark = joined.number(limit.constant, dtype, initial)
        else:
            mark = builder.op("Cast", [write_number(builder, limit)], {"to": int(dtype)})
        none = builder.op(op_type, [initial, mark])
        found = builder.op("Cast", [builder.op("Not", [none])], {"to": int(ir.DataType.INT32)})
        return builder.op("Reshape", [found, builder.ints(1)])


def _pick(builder: Builder, hits: ir.Value, takes_first: bool) -> ir.Value:
    options = {"axis": 0, "keepdims": 0}
    if not takes_first:
        options["select_last_index"] = 1
    return builder.op("ArgMax", [hits], options)
