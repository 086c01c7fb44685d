"""Several writes of one iteration along different axes, where those of two iterations cross.

``d[i] = v; d[:, i] = v`` writes a row and a column. The row of iteration 3 and the column of
iteration 1 cross at ``d[3, 1]``, where iteration 3 wrote later. So the rows of all iterations are
written, then the columns onto them, and a column holds where its iteration is not an earlier one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.combined.steps import Steps, Together, onto
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.carried.writes.writes import Write
from passes.decisions import Code
from passes.graph.made import operand
from passes.graph.picking import can_pick, pick
from passes.numbers.integers import ITERATION
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried

__all__ = ["CrossingWrites", "crossing"]

_NEVER = -(2**62)
"""The time of a place that nothing was written to; each iteration is later."""


@dataclasses.dataclass(frozen=True)
class CrossingWrites(Together):
    """Writes of an iteration, each at a place of the iteration along an axis of its own.

    Attributes:
        dtype: The element type of the tensor.
    """

    parts: tuple[Write, ...]
    dtype: ir.DataType | None = None
    name = "carried writes by index that cross"

    def write(self, joined: Joined) -> ir.Value:
        """Record one write behind the other, each where its iteration is not an earlier one."""
        builder, written = joined.builder, self.carried.initial
        never = builder.constant(np.array(_NEVER, np.int64))
        nowhere = builder.op("Expand", [never, builder.op("Shape", [written])])
        latest, start = nowhere, 0
        for part in self.parts:
            end = start + len(part.terms)
            own = joined.of_terms(start, end)
            start = end
            over = onto(part, written).write(own)
            times = self._times(own, nowhere, over, part)
            if part is self.parts[0]:
                written, latest = over, times
            else:
                is_earlier = builder.op("Less", [times, latest])
                written = pick(builder, is_earlier, written, over, self.dtype)
                latest = builder.op("Where", [is_earlier, latest, times])
            joined.typing.set(written, joined.typing[self.carried.initial])
        return written

    def _times(self, own: Joined, nowhere: ir.Value, written: ir.Value, part: Write) -> ir.Value:
        """Record when each place is written to: a number that grows with the iterations.

        Args:
            own: What the part is written from.
            nowhere: What holds that nothing was written, of the shape of the tensor.
            written: What the part has written.
            part: The part.

        Raises:
            NotAMapError: Nothing tells along how many axes places are named.
        """
        builder, scatter = own.builder, written.producer()
        (places, rows), first = (known.dims for known in own.types), self.parts[0].index
        if places is None or rows is None:
            detail = f"nothing tells where '{name_of_carried(self.carried)}' is written to"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, part.node)
        assert scatter is not None and first is not None
        assert part.index is not None and part.along is not None
        indices, updates = operand(scatter, 1), operand(scatter, 2)
        times = builder.op("Gather", [indices, builder.scalar(part.along)], {"axis": -1})
        behind = (part.index - first).number
        if behind:
            times = builder.op("Sub", [times, builder.scalar(behind)])
        if first.coefficient(ITERATION) < 0:
            times = builder.op("Neg", [times])
        rest = len(rows) - len(places) + 1
        if rest:
            times = builder.op("Unsqueeze", [times, builder.ints(*range(-rest, 0))])
            times = builder.op("Expand", [times, builder.op("Shape", [updates])])
        return builder.op("ScatterND", [nowhere, indices, times])


def crossing(
    parts: Sequence[Pattern], between: Sequence[ir.Value], dtype: ir.DataType | None
) -> CrossingWrites | None:
    """Return writes of one iteration along different axes as one pattern; None for others.

    Args:
        parts: The writes, in order.
        between: What the tensor is behind some of them.
        dtype: Its element type.
    """
    together = (Steps, CrossingWrites)
    single = [
        one for part in parts for one in (part.parts if isinstance(part, together) else (part,))
    ]
    writes = [one for one in single if isinstance(one, Write) and _has_own_place(one)]
    if len(writes) != len(single) or not can_pick(dtype):
        return None
    first = writes[0].index
    numbers = [one.index for one in writes if one.index is not None]
    if first is None or any((one - first).number is None for one in numbers):
        return None
    return CrossingWrites.of(parts, writes, between, dtype=dtype)


def _has_own_place(write: Write) -> bool:
    """Whether the places that an iteration writes to have one number along an axis, its own."""
    is_told = write.index is not None and write.along is not None and write.width == 1
    return is_told and write.reduction == "none" and write.node.op_type == "ScatterND"
