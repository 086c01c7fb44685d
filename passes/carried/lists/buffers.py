"""Buffers that roll: each iteration joins new places to one end and drops as many at the other.

What is carried is a window of the initial value and all that was appended. With a buffer of three
places, two new ones in each iteration, the initial ``[a, b, c]`` and the appended ``[d, e]`` and
``[f, g]``, the whole is ``[a, b, c, d, e, f, g]``, and the windows begin at 0, 2 and 4.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined, unknown_rank
from passes.carried.lists.appends import fitting_rows, unsqueezed
from passes.carried.pattern import Pattern, Term, added, dependent_values, path_through
from passes.decisions import Code
from passes.graph.builder import END
from passes.graph.made import made_by, operand, skip_identities
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.one_place import row_taken
from passes.numbers.slice_bounds import Bounds, bounds_of, slice_of
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["RollingBuffer", "find_buffer"]

_END = int(np.iinfo(np.int32).max)
"""Exporters end a Slice that goes to the end here, or farther."""


@dataclasses.dataclass(frozen=True)
class RollingBuffer(Pattern):
    """The last places of what was appended so far, as many as there were at first.

    Attributes:
        terms: What is appended.
        axis: Along which axis.
        step: How many places an iteration appends.
        is_unsqueezed: Whether the term lacks the axis, and is a single place.
        ends: Where slices that are appended end, each with the size of what it is cut from.
        is_turned: Whether new places come in front, and the last ones are dropped.
    """

    axis: int
    step: int
    is_unsqueezed: bool
    ends: tuple[tuple[Linear, Linear], ...] = ()
    is_turned: bool = False
    name = "carried buffer"
    keeps_shape = "as it is made"

    def write(self, joined: Joined) -> ir.Value:
        """Record the last places of the whole."""
        builder = joined.builder
        whole, axis = self._whole(joined), builder.ints(self.axis)
        if self.is_turned:
            return builder.op("Slice", [whole, builder.ints(0), self._size(joined), axis])
        return builder.op("Slice", [whole, self._last_begin(joined), builder.ints(END), axis])

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the values of all iterations can be stacked: they are windows of the whole."""
        return True

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the windows, ``[trips, *s]``: positions ``[trips, n]`` read the whole at once."""
        builder = joined.builder
        whole, end = self._whole(joined), self._last_begin(joined)
        zero = builder.scalar(0)
        size = self._size(joined)
        stop = builder.op("Squeeze", [end, builder.ints(0)])
        begins = builder.op("Range", [zero, stop, builder.scalar(self.step)])
        if is_after:
            begins = builder.op("Add", [begins, builder.scalar(self.step)])
        if self.is_turned:
            begins = builder.op("Sub", [stop, begins])
        within = builder.arange(builder.op("Squeeze", [size, builder.ints(0)]))
        rows = builder.op("Unsqueeze", [begins, builder.ints(1)])
        windows = builder.op(
            "Gather", [whole, builder.op("Add", [rows, within])], {"axis": self.axis}
        )
        if self.axis == 0:
            return windows
        rank = len(joined.types[0].dims or ()) + self.is_unsqueezed
        others = [at for at in range(rank + 1) if at != self.axis]
        return builder.op("Transpose", [windows], {"perm": [self.axis, *others]})

    def _whole(self, joined: Joined) -> ir.Value:
        """Record the initial value and all that is appended behind it.

        Raises:
            NotAMapError: Their rank is not known, or how much is appended.
        """
        initial, axis = self.carried.initial, self.axis
        last = joined.trips.bound - 1
        ends = [(end.replace({ITERATION: last}), size) for end, size in self.ends]
        if not all(is_nonnegative(size - end) for end, size in ends):
            detail = f"what is appended to '{self.carried.inner.name}' may be shorter"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer())
        dims, around = joined.types[0].dims, joined.typing.dims(initial)
        if dims is not None and self.is_unsqueezed:
            dims = (*dims[:axis], 1, *dims[axis:])
        if dims is None or around is None or len(dims) != len(around):
            raise unknown_rank(self.carried)
        rows = fitting_rows(joined, initial, self._rows(joined), dims, axis)
        parts = [rows, initial] if self.is_turned else [initial, rows]
        return joined.builder.op("Concat", parts, {"axis": axis})

    def _rows(self, joined: Joined) -> ir.Value:
        """Record all that is appended, ``[.., trips * step, ..]``."""
        builder, (rows,) = joined.builder, joined.values
        if self.is_turned:
            bounds = builder.ints(-1), builder.ints(-END), builder.ints(0), builder.ints(-1)
            rows = builder.op("Slice", [rows, *bounds])
        if self.axis:
            rank = len(joined.types[0].dims or ())
            moved = [*range(1, self.axis + 1), 0, *range(self.axis + 1, rank + 1)]
            rows = builder.op("Transpose", [rows], {"perm": moved})
        if self.is_unsqueezed:
            return rows
        shape = builder.op("Shape", [rows])

        def cut(start: int, end: int) -> ir.Value:
            return builder.op("Slice", [shape, builder.ints(start), builder.ints(end)])

        before, behind = cut(0, self.axis), cut(self.axis + 2, END)
        merged = builder.op("Concat", [before, self._last_begin(joined), behind], {"axis": 0})
        return builder.op("Reshape", [rows, merged], {"allowzero": 1})

    def _size(self, joined: Joined) -> ir.Value:
        """Record how many places the buffer has, ``[1]``."""
        builder = joined.builder
        shape = builder.op("Shape", [self.carried.initial])
        return builder.op("Gather", [shape, builder.ints(self.axis)], {"axis": 0})

    def _last_begin(self, joined: Joined) -> ir.Value:
        """Record how many places were appended, ``[1]``: there the last window begins."""
        builder = joined.builder
        shape = builder.op("Shape", [joined.values[0]])
        trips = builder.op("Gather", [shape, builder.ints(0)], {"axis": 0})
        return builder.weighted_sum([(trips, self.step)], 0)


def find_buffer(carried: Carried, facts: LoopFacts, typing: Typing) -> RollingBuffer | None:
    """Return the buffer that a carried tensor is, None if it is none.

    Either ``s2 = Concat(s, e)[k:]`` with ``k`` places in ``e``, the last ``n`` places of that for
    a buffer of ``n``, or ``s2 = Concat(s[k:], e)`` where ``n`` is at least ``k``; or the same
    turned, ``Concat(e, s)[:n]`` and ``Concat(e, s[:-k])``.
    """
    body = facts.iteration.body
    dims = typing.dims(carried.initial)
    last = made_by(carried.next, "Slice", "Concat", body=body)
    if last is None or not dims:
        return None
    cuts_last = last.op_type == "Slice"
    joins = made_by(operand(last, 0), "Concat", body=body) if cuts_last else last
    path = None if joins is None else path_through(joins, dependent_values(body, carried.inner))
    if joins is None or path is None or path[0] not in (0, len(joins.inputs) - 1):
        return None
    if not path[1]:
        return None  # a Concat of one tensor
    is_turned, kept = path[0] > 0, operand(joins, path[0])
    cut = last if cuts_last else made_by(kept, "Slice", body=body)
    whole = kept if cut is None or cuts_last else operand(cut, 0)
    if cut is None or skip_identities(whole) is not carried.inner:
        return None
    rank = len(dims)
    axis = joins.attributes.get_int("axis", 0) % rank
    found = [_places(part, axis, rank, facts, typing) for part in path[1]]
    step, ends = sum(size or 0 for size, _ in found), [end for _, own in found for end in own]
    bounds = bounds_of(cut, facts.evaluator)
    if any(not size for size, _ in found) or bounds is None or bounds.axis % rank != axis:
        return None
    drops = _drops_behind if is_turned else _drops
    if not drops(bounds, dims[axis], step, is_last=cuts_last):
        return None
    nodes: tuple[ir.Node, ...] = ()
    new = path[1][0]
    if len(path[1]) > 1:
        nodes = (added("Concat", path[1], {"axis": axis}),)
        new = nodes[0].outputs[0]
    row = unsqueezed(new, body, axis)
    term = Term(new if row is None else row)
    how = (axis, step, row is not None, tuple(ends), is_turned)
    return RollingBuffer(carried, (term,), *how, nodes=nodes)


def _places(
    part: ir.Value, axis: int, rank: int, facts: LoopFacts, typing: Typing
) -> tuple[int | None, list[tuple[Linear, Linear]]]:
    """Return how many places a tensor has along an axis, if it is known.

    Of a slice it is known if that ends within what it is cut from: where, and the size of that.
    """
    dims = typing.dims(part)
    size = dims[axis] if dims is not None and len(dims) == rank else None
    if not isinstance(size, int):
        made = facts.evaluator.dimension(part, axis)
        size = None if made is None else made.number
    if isinstance(size, int):
        return size, []
    taken = None if axis else row_taken(facts.evaluator, part)
    if taken is not None:
        number, count = taken
        return 1, [(number + 1, count)]
    cut = slice_of(part, facts.evaluator, facts.iteration.body)
    if cut is None or cut[1].axis % rank != axis:
        return None, []
    bounds = cut[1]
    whole = facts.evaluator.dimension(cut[0], axis)
    length = (bounds.end - bounds.start).number
    if whole is None or length is None or not is_nonnegative(bounds.start):
        return None, []
    return max(length, 0), [(bounds.end, whole)]


def _drops(bounds: Bounds, size: int | str | None, step: int, *, is_last: bool) -> bool:
    """Whether a Slice drops as many places in front as are appended.

    Args:
        bounds: Where it begins and ends.
        size: How many places the buffer has.
        step: How many are appended.
        is_last: Whether the Slice comes behind the Concat.
    """
    length = size + step * is_last if isinstance(size, int) else _END
    begin, end = bounds.start.number, bounds.end.number
    if begin is None or end is None or end < length:
        return False
    if begin < 0:
        return size == (-begin if is_last else step - begin)
    return begin == step and (is_last or (isinstance(size, int) and size >= step))


def _drops_behind(bounds: Bounds, size: int | str | None, step: int, *, is_last: bool) -> bool:
    """Whether a Slice drops as many places behind as come in front; see `_drops`."""
    begin, end = bounds.start.number, bounds.end.number
    if begin != 0 or end is None:
        return False
    if not is_last and not (isinstance(size, int) and size >= step):
        return False
    if end < 0:
        return end == -step
    return isinstance(size, int) and end == (size if is_last else size - step)
