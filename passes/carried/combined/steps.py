"""Several writes of one iteration to a carried tensor, apart from those of other iterations.

``s[i] = a_i; s[i, 0] = b_i`` writes to row ``i`` only, so that all first writes may come before
all second ones. So may those of ``if c_i: s[i] = a_i`` and ``else: s[i] = b_i``, and sums.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import onnx_ir as ir

from passes.carried.combined.conditional import Conditional
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern
from passes.carried.writes.writes import Write
from passes.numbers.integers import Linear

__all__ = ["Steps", "Together", "in_steps", "onto"]


@dataclasses.dataclass(frozen=True)
class Together(Pattern):
    """Writes of an iteration, in order.

    Attributes:
        terms: Those of all writes, one behind the other.
        parts: The writes.
        between: What the tensor is behind each write but the last.
    """

    parts: tuple[Pattern, ...]
    between: tuple[ir.Value, ...] = ()
    name = "carried writes by index"
    keeps_shape = "as it is made"
    needs_sizes = False

    @classmethod
    def of(
        cls,
        given: Sequence[Pattern],
        parts: Sequence[Pattern],
        between: Sequence[ir.Value],
        **more: Any,
    ) -> Self:
        """Return writes as one pattern.

        Args:
            given: What the writes were found as.
            parts: The writes, in order.
            between: What the tensor is behind some of those that are given.
            more: What else the pattern holds.
        """
        return cls(
            given[0].carried,
            tuple(term for part in parts for term in part.terms),
            tuple(parts),
            (*between, *(value for part in given for value in part.between)),
            nodes=tuple(node for part in parts for node in part.nodes),
            speculated=tuple(pair for part in parts for pair in part.speculated),
            **more,
        )


@dataclasses.dataclass(frozen=True)
class Steps(Together):
    """Writes of an iteration, apart from those of other iterations."""

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether the order of the writes changes the result."""
        return any(part.rounds for part in self.parts)

    def write(self, joined: Joined) -> ir.Value:
        """Record one write behind the other."""
        start, tensor = 0, self.carried.initial
        for part in self.parts:
            end = start + len(part.terms)
            own = joined.of_terms(start, end)
            tensor = onto(part, tensor).write(own)
            joined.typing.set(tensor, joined.typing[self.carried.initial])
            start = end
        return tensor


def onto(part: Pattern, tensor: ir.Value) -> Pattern:
    """Return a write to another tensor than the initial one."""
    carried = dataclasses.replace(part.carried, initial=tensor)
    if isinstance(part, Conditional):
        done = onto(part.form, tensor)
        return dataclasses.replace(part, carried=carried, form=done)
    assert isinstance(part, Write)
    return dataclasses.replace(part, carried=carried)


def in_steps(parts: Sequence[Pattern], between: Sequence[ir.Value] = ()) -> Steps | None:
    """Return writes of one iteration as one pattern; None if those of two iterations meet.

    Args:
        parts: The writes, in order.
        between: What the tensor is behind some of them.
    """
    single = [part for one in parts for part in (one.parts if isinstance(one, Steps) else (one,))]
    writes = [_written(part) for part in single]
    known = [one for one in writes if one is not None]
    room = _room(known) if len(known) == len(writes) else None
    if room is None:
        return None
    return Steps.of(parts, [_widened(part, *room) for part in single], between)


def _written(part: Pattern) -> Write | None:
    if isinstance(part, Conditional):
        return _written(part.form)
    return part if isinstance(part, Write) else None


def _room(writes: Sequence[Write]) -> tuple[Linear | None, int] | None:
    """Return from where on, and how many places, an iteration writes to; None if not known.

    Of ``s[2 * i] = a; s[2 * i + 1] = b`` these are two places from ``2 * i`` on. Those of
    ``s[i, 1] = a; s[1, i] = b`` lie along two axes, so that two iterations may meet. Where all
    writes join what is there, in the same way, the order does not count, and no place is needed.
    """
    reductions = {one.reduction for one in writes}
    if reductions != {"none"}:
        return (None, 1) if len(reductions) == 1 else None
    first, along = writes[0].index, writes[0].along
    if first is None or along is None or any(one.along != along for one in writes):
        return None
    spans = []
    for one in writes:
        start = None if one.index is None else (one.index - first).number
        if start is None:
            return None
        spans.append((start, start + one.width))
    least = min(start for start, _ in spans)
    width = max(end for _, end in spans) - least
    return (first + least, width) if abs(first.step) >= width else None


def _widened(part: Pattern, index: Linear | None, width: int) -> Pattern:
    """Return a write that asks for the room of all writes of an iteration."""
    if isinstance(part, Conditional):
        return dataclasses.replace(part, form=_widened(part.form, index, width))
    assert isinstance(part, Write)
    return dataclasses.replace(part, index=index, width=width)
