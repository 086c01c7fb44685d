"""State that is kept for each key: what all iterations read of ``s[k_i]``, which they write to.

Sorted by key, the iterations of one key follow one another. For the keys ``[1, 0, 1]`` and the
rows ``[a, b, c]`` written there, iteration 2 reads ``a``, and the other ones what stood there at
first. Where each joins its row to what it reads, a running total begins anew with each key.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.common.masks import neutral_of
from passes.carried.joined import Joined
from passes.carried.pattern import ReadPattern
from passes.carried.places.last_ones import SortedByKey, sorted_by_key
from passes.carried.totals.filled import Begun, totals
from passes.carried.totals.totals import rounds_in_order
from passes.decisions import Code
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["KeyedRead"]

_INT64 = int(ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class KeyedRead(ReadPattern):
    """What iterations read at their keys of a tensor that they write to at their keys.

    Attributes:
        carried: What is read, as a carried value.
        terms: The key of an iteration, and what it writes, or what it joins to what it reads; at
            last whether it writes, if that is flagged.
        tensor: The carried tensor.
        dtype: Its element type.
        family: The operator that joins; None where rows are written as they are.
        is_after: Whether it is read behind the write.
        is_checked: Whether a row is written only at a key that counts from the start.
        is_flagged: Whether a row is written only where a flag says so.
    """

    tensor: Carried
    dtype: ir.DataType
    family: str | None = None
    is_after: bool = False
    is_checked: bool = False
    is_flagged: bool = False
    name = "state of each key"
    keeps_shape = "as it is made"

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether the order of the operations changes the result."""
        return self.family is not None and rounds_in_order(self.family, self.dtype)

    @property
    def _skips(self) -> bool:
        """Whether some iterations may write nothing."""
        return self.is_checked or self.is_flagged

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record what all iterations read.

        Raises:
            NotAMapError: A row may have another shape, or there are too many iterations.
        """
        joined.needs_shape(1, self.carried, always=True)
        builder, rows = joined.builder, self._rows(joined)
        if self._skips and self.family is not None:
            rows = self._masked(joined, rows, self.family)
        if self.family is None and self.is_after:
            return rows
        before = self._before(joined, rows)
        if self.is_after and self.family is not None:
            return builder.op(self.family, [before, rows])
        return before

    def _before(self, joined: Joined, rows: ir.Value) -> ir.Value:
        """Record what each iteration finds at its key."""
        builder, tensor, none = joined.builder, self.tensor.initial, joined.builder.ints(0)
        size = builder.shape(tensor, 0, 1)
        keys = self._keys(joined, size)
        by_key = sorted_by_key(builder, keys)
        order, begins = by_key.order, by_key.begins
        if self._skips and self.family is None:
            read = self._last_written(joined, by_key, size)
        else:
            places = builder.op("Add", [order, size])
            last = builder.op("Concat", [none, places], {"axis": 0})
            last = builder.op("Slice", [last, none, by_key.count])
            read = builder.op("Where", [begins, by_key.keys, last])
        whole = builder.op("Concat", [tensor, rows], {"axis": 0})
        found = builder.op("Gather", [whole, read], {"axis": 0})
        if self.family is not None:
            rank = joined.typing.rank(tensor)
            if rank is None:
                detail = f"nothing tells the rank of '{self.tensor.inner.name}'"
                raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
            given = Begun(found, begins, rank - 1, is_whole=True)
            found = totals(joined, self.carried, given, self.family, self.dtype)
        back = builder.op("ScatterElements", [by_key.numbers, order, by_key.numbers], {"axis": 0})
        found = builder.op("Gather", [found, back], {"axis": 0})
        return builder.op("Reshape", [found, self._shape(joined)], {"allowzero": 1})

    def _last_written(self, joined: Joined, by_key: SortedByKey, size: ir.Value) -> ir.Value:
        """Record for each iteration, by key, where the row stands that it finds.

        It is the row of the last iteration before that has its key and writes, or the tensor's.
        """
        builder, none = joined.builder, joined.builder.scalar(0)
        writes = builder.op("Gather", [self._writes(joined), by_key.order], {"axis": 0})
        before = builder.op("Cast", [writes], {"to": _INT64})
        before = builder.op("CumSum", [before, none], {"exclusive": 1})
        last = builder.op("Sub", [before, builder.scalar(1)])  # -1 reads the 0 behind the last
        made = []
        for values in (by_key.order, by_key.keys):
            kept = builder.op("Compress", [values, writes], {"axis": 0})
            kept = builder.op("Concat", [kept, builder.ints(0)], {"axis": 0})
            made.append(builder.op("Gather", [kept, last], {"axis": 0}))
        writer, key = made
        is_same = builder.op("Equal", [key, by_key.keys])
        is_same = builder.op("And", [is_same, builder.op("GreaterOrEqual", [last, none])])
        return builder.op("Where", [is_same, builder.op("Add", [writer, size]), by_key.keys])

    def _writes(self, joined: Joined) -> ir.Value:
        """Record which iterations write, ``bool[n]``."""
        builder, found = joined.builder, []
        if self.is_checked:
            keys = builder.op("Cast", [joined.values[0]], {"to": _INT64})
            keys = builder.op("Reshape", [keys, builder.ints(-1)])
            found.append(builder.op("GreaterOrEqual", [keys, builder.scalar(0)]))
        if self.is_flagged:
            found.append(builder.op("Reshape", [joined.values[2], builder.ints(-1)]))
        return found[0] if len(found) == 1 else builder.op("And", found)

    def _masked(self, joined: Joined, rows: ir.Value, family: str) -> ir.Value:
        """Record what is joined; what an iteration that does not write joins changes nothing."""
        builder, rank = joined.builder, joined.rank(self.tensor.initial)
        none = np.array(neutral_of(family, self.dtype), self.dtype.numpy())
        writes = self._writes(joined)
        if rank > 1:
            writes = builder.op("Unsqueeze", [writes, builder.ints(*range(1, rank))])
        return builder.op("Where", [writes, rows, builder.constant(none)])

    def _keys(self, joined: Joined, size: ir.Value) -> ir.Value:
        """Record the keys, ``[n]``; negative ones count from the end."""
        builder = joined.builder
        keys = builder.op("Reshape", [joined.values[0], builder.ints(-1)])
        keys = builder.op("Cast", [keys], {"to": _INT64})
        is_turned = builder.op("Less", [keys, builder.ints(0)])
        return builder.op("Where", [is_turned, builder.op("Add", [keys, size]), keys])

    def _rows(self, joined: Joined) -> ir.Value:
        """Record the rows of all iterations, ``[n, *s]``."""
        builder, tensor, dims = joined.builder, self.tensor.initial, joined.types[1].dims
        rank = joined.rank(tensor)
        assert dims is not None
        rows, beside = joined.values[1], rank - 1 - len(dims)
        if beside:
            rows = builder.op("Unsqueeze", [rows, builder.ints(*range(1, 1 + beside))])
        return builder.op("Expand", [rows, self._shape(joined)])

    def _shape(self, joined: Joined) -> ir.Value:
        """Record the shape of the rows of all iterations."""
        builder, rest = joined.builder, joined.builder.shape(self.tensor.initial, 1)
        return builder.op("Concat", [joined.trips.write(builder), rest], {"axis": 0})
