"""Several writes of one iteration to any places, which those of other iterations may meet.

``a[i, j] = 1; a[j, i] = 1`` writes to two places in each iteration. The places of all iterations
stand in the order of the writes, and what is written last to each place holds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.combined.steps import Together
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.carried.places.last_ones import OLDEST_SCATTER
from passes.carried.writes.last_places import LastWrite, scatter_last
from passes.decisions import Code
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import BEHIND, name_of_carried

__all__ = ["WritesInTurn", "in_turn"]


@dataclasses.dataclass(frozen=True)
class WritesInTurn(Together):
    """Writes of an iteration to places that other iterations may write to.

    Attributes:
        is_dear: Whether an iteration may write to many places, which cost more to sort.
    """

    parts: tuple[LastWrite, ...]
    is_dear: bool = False
    cheap_from = OLDEST_SCATTER

    def write(self, joined: Joined) -> ir.Value:
        """Record one scatter of what is written last to each place.

        Raises:
            NotAMapError: Nothing tells how many places an iteration writes to, or some of them are
                named along fewer axes than others.
        """
        builder, tensor = joined.builder, self.carried.initial
        dims = [known.dims for known in joined.types[::2]]
        named = {one[-1] if one else None for one in dims}
        counts = [_count(one) for one in dims]
        (along, *others) = named
        name = name_of_carried(self.carried)
        if others and all(isinstance(one, int) for one in named):
            detail = f"an iteration writes to whole rows of '{name}', and to parts of some"
            raise NotAMapError(Code.RECURRENCE, detail, self.carried.next.producer(), BEHIND)
        if others or not isinstance(along, int) or along < 1 or None in counts:
            detail = f"nothing tells where '{name}' is written to"
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.carried.next.producer())
        rest, number = builder.shape(tensor, along), joined.trips.write(builder)

        def in_order(values: Sequence[ir.Value], behind: ir.Value) -> ir.Value:
            parts = []
            for value, count in zip(values, counts, strict=True):
                shape = builder.op(
                    "Concat", [number, builder.ints(count or 0), behind], {"axis": 0}
                )
                parts.append(builder.op("Reshape", [value, shape], {"allowzero": 1}))
            whole = builder.op("Concat", parts, {"axis": 1})
            many = builder.op("Mul", [number, builder.ints(sum(n or 0 for n in counts))])
            shape = builder.op("Concat", [many, behind], {"axis": 0})
            return builder.op("Reshape", [whole, shape], {"allowzero": 1})

        places = in_order(joined.values[::2], builder.ints(along))
        rows = in_order(joined.values[1::2], rest)
        is_marked = self.is_dear and joined.opset >= OLDEST_SCATTER
        return scatter_last(builder, tensor, places, rows, along, is_marked=is_marked)


def _count(dims: tuple[int | str | None, ...] | None) -> int | None:
    """Return how many places there are, None if that is not known."""
    sizes = [d for d in dims[:-1] if isinstance(d, int)] if dims else None
    known = sizes is not None and dims is not None and len(sizes) == len(dims) - 1
    return math.prod(sizes) if known and sizes is not None else None


def in_turn(parts: Sequence[Pattern], between: Sequence[ir.Value]) -> WritesInTurn | None:
    """Return writes of one iteration to any places as one pattern; None for others.

    Args:
        parts: The writes, in order.
        between: What the tensor is behind some of them.
    """
    single: list[LastWrite] = []
    for one in parts:
        for part in one.parts if isinstance(one, WritesInTurn) else (one,):
            if not isinstance(part, LastWrite):
                return None
            if part.axes != tuple(range(len(part.axes))):  # rows lie across the tensor
                return None
            if any(term.axis for term in part.terms):
                return None
            single.append(part)
    if not single:
        return None
    is_dear = any(part.is_dear for part in single)
    return WritesInTurn.of(parts, single, between, is_dear=is_dear)
