"""Buffers that roll: each iteration appends new places at the end and drops as many in front.

What is carried is a window of the initial value and all that was appended. With a buffer of three
places, two new ones in each iteration, the initial ``[a, b, c]`` and the appended ``[d, e]`` and
``[f, g]``, the whole is ``[a, b, c, d, e, f, g]``, and the windows begin at 0, 2 and 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.appends import like_initial, unsqueezed
from passes.carried.pattern import (
    Joined,
    Pattern,
    Term,
    added,
    dependent_values,
    operator,
    path_through,
    same_dims,
)
from passes.decisions import Code
from passes.graph.graphs import constant_value
from passes.graph.made import skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["RollingBuffer", "find_buffer"]

_END = int(np.iinfo(np.int32).max)
"""Exporters end a Slice that goes to the end here, or farther."""


@dataclasses.dataclass(frozen=True)
class RollingBuffer(Pattern):
    """The last places of what was appended so far, as many as there were at first.

    Attributes:
        carried: Where it stands.
        terms: What is appended.
        axis: Along which axis.
        step: How many places an iteration appends.
        is_unsqueezed: Whether the term lacks the axis, and is a single place.
        nodes: What joins several appended tensors of one iteration.
    """

    carried: Carried
    terms: tuple[Term, ...]
    axis: int
    step: int
    is_unsqueezed: bool
    nodes: tuple[ir.Node, ...] = ()
    name = "carried buffer"

    def write(self, joined: Joined) -> ir.Value:
        """Record the last places of the whole."""
        builder = joined.builder
        whole, begin = self._whole(joined), self._last_begin(joined)
        bounds = [begin, builder.ints(int(np.iinfo(np.int64).max)), builder.ints(self.axis)]
        return builder.op("Slice", [whole, *bounds])

    def check_shape(self, joined: Joined) -> None:
        """Nothing is to check: each iteration drops as much as it appends."""

    def can_collect(self, *, is_after: bool) -> bool:
        """Whether the values of all iterations can be stacked: they are windows of the whole."""
        return True

    def write_all(self, joined: Joined, *, is_after: bool) -> ir.Value:
        """Record the windows, ``[trips, *s]``: positions ``[trips, n]`` read the whole at once."""
        builder = joined.builder
        whole, end = self._whole(joined), self._last_begin(joined)
        zero, one = builder.scalar(0), builder.scalar(1)
        size = self._size(joined)
        stop = builder.op("Squeeze", [end, builder.ints(0)])
        begins = builder.op("Range", [zero, stop, builder.scalar(self.step)])
        if is_after:
            begins = builder.op("Add", [begins, builder.scalar(self.step)])
        within = builder.op("Range", [zero, builder.op("Squeeze", [size, builder.ints(0)]), one])
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
            NotAMapError: Their rank is not known.
        """
        builder, initial, axis = joined.builder, self.carried.initial, self.axis
        dims, around = joined.types[0].dims, joined.typing.dims(initial)
        if dims is not None and self.is_unsqueezed:
            dims = (*dims[:axis], 1, *dims[axis:])
        if dims is None or around is None or len(dims) != len(around):
            detail = f"nothing tells the rank of '{self.carried.inner.name}'"
            raise NotAMapError(Code.UNKNOWN_RANK, detail, self.carried.next.producer())
        rows = self._rows(joined)
        if not joined.runs:
            own = [*dims[:axis], around[axis], *dims[axis + 1 :]]
            if not same_dims(joined.typing, initial, own):
                rows = like_initial(builder, initial, rows, len(around), axis)
        return builder.op("Concat", [initial, rows], {"axis": axis})

    def _rows(self, joined: Joined) -> ir.Value:
        """Record all that is appended, ``[.., trips * step, ..]``."""
        builder, (rows,) = joined.builder, joined.values
        if self.axis:
            rank = len(joined.types[0].dims or ())
            moved = [*range(1, self.axis + 1), 0, *range(self.axis + 1, rank + 1)]
            rows = builder.op("Transpose", [rows], {"perm": moved})
        if self.is_unsqueezed:
            return rows
        shape, largest = builder.op("Shape", [rows]), int(np.iinfo(np.int64).max)

        def cut(start: int, end: int) -> ir.Value:
            return builder.op("Slice", [shape, builder.ints(start), builder.ints(end)])

        before, behind = cut(0, self.axis), cut(self.axis + 2, largest)
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
        return builder.op("Mul", [trips, builder.ints(self.step)])


def find_buffer(carried: Carried, iteration: Iteration, typing: Typing) -> RollingBuffer | None:
    """Return the buffer that a carried tensor is, None if it is none.

    Either ``s2 = Concat(s, e)[k:]`` with ``k`` places in ``e``, the last ``n`` places of that for
    a buffer of ``n``, or ``s2 = Concat(s[k:], e)`` where ``n`` is at least ``k``.
    """
    body = iteration.body
    last = operator(skip_identities(carried.next), body)
    rank = len(typing.dims(carried.initial) or ())
    if last is None or not rank or last.op_type not in ("Slice", "Concat"):
        return None
    first = operator(skip_identities(_first(last)), body)
    if first is None or {first.op_type, last.op_type} != {"Slice", "Concat"}:
        return None
    cut, joins = (last, first) if last.op_type == "Slice" else (first, last)
    path = path_through(joins, dependent_values(body, carried.inner))
    inner = skip_identities(_first(joins if cut is last else cut))
    if path is None or path[0] != 0 or not path[1] or inner is not carried.inner:
        return None
    axis = joins.attributes.get_int("axis", 0) % rank
    step = _places(path[1], axis, rank, typing)
    size = (typing.dims(carried.initial) or ())[axis]
    if step is None or not _drops(cut, axis, rank, size, step, is_last=cut is last):
        return None
    nodes: tuple[ir.Node, ...] = ()
    new = path[1][0]
    if len(path[1]) > 1:
        nodes = (added("Concat", path[1], {"axis": axis}),)
        new = nodes[0].outputs[0]
    row = unsqueezed(new, body, axis)
    term = Term(new if row is None else row)
    return RollingBuffer(carried, (term,), axis, step, row is not None, nodes)


def _first(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _places(parts: Sequence[ir.Value], axis: int, rank: int, typing: Typing) -> int | None:
    """Return how many places some tensors have together along an axis, if it is known."""
    total = 0
    for part in parts:
        dims = typing.dims(part)
        size = dims[axis] if dims is not None and len(dims) == rank else None
        if not isinstance(size, int):
            return None
        total += size
    return total or None


def _drops(
    cut: ir.Node, axis: int, rank: int, size: int | str | None, step: int, *, is_last: bool
) -> bool:
    """Whether a Slice drops as many places in front as are appended.

    Args:
        cut: The Slice.
        axis: Along which axis.
        rank: The rank of what it cuts.
        size: How many places the buffer has.
        step: How many are appended.
        is_last: Whether the Slice comes behind the Concat.
    """
    length = size + step * is_last if isinstance(size, int) else _END
    begin = _begin(cut, axis, rank, length)
    if begin is None:
        return False
    if begin < 0:
        return size == (-begin if is_last else step - begin)
    return begin == step and (is_last or (isinstance(size, int) and size >= step))


def _begin(cut: ir.Node, axis: int, rank: int, length: int) -> int | None:
    """Return where a Slice of one axis begins that goes to the end; None if it is another."""
    begins, ends, axes, steps = [
        constant_value(cut.inputs[at]) if len(cut.inputs) > at else None for at in range(1, 5)
    ]
    if begins is None or ends is None or begins.size != 1 or ends.size != 1:
        return None
    if len(cut.inputs) > 3 and cut.inputs[3] is not None and (axes is None or axes.size != 1):
        return None
    if len(cut.inputs) > 4 and (steps is None or steps.size != 1 or steps.item() != 1):
        return None
    along = 0 if axes is None else int(axes.item()) % rank
    return int(begins.item()) if along == axis and ends.item() >= length else None
