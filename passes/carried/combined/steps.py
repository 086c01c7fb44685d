"""Several writes of one iteration to a carried tensor, apart from those of other iterations.

``s[i] = a_i; s[i, 0] = b_i`` writes to row ``i`` only, so that all first writes may come before
all second ones. So may those of ``if c_i: s[i] = a_i`` and ``else: s[i] = b_i``, and sums.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.combined.conditional import Conditional
from passes.carried.joined import Joined
from passes.carried.pattern import Pattern, Term
from passes.carried.writes.writes import Write
from passes.numbers.integers import Linear
from passes.reading.iterations import Carried

__all__ = ["Steps", "in_steps", "onto"]


@dataclasses.dataclass(frozen=True)
class Steps(Pattern):
    """Writes of an iteration, in order.

    Attributes:
        carried: Where the tensor stands.
        terms: Those of all writes, one behind the other.
        parts: The writes.
        nodes: What computes the terms beside the body.
        speculated: The nodes of branches that the map runs in all iterations.
        between: What the tensor is behind each write but the last.
    """

    carried: Carried
    terms: tuple[Term, ...]
    parts: tuple[Pattern, ...]
    nodes: tuple[ir.Node, ...] = ()
    speculated: tuple[tuple[ir.Node, ir.Node], ...] = ()
    between: tuple[ir.Value, ...] = ()
    name = "carried writes by index"
    keeps_shape = "as it is made"
    needs_sizes = False

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
        done = onto(part.done, tensor)
        return dataclasses.replace(part, carried=carried, done=done)
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
    made = tuple(_widened(part, *room) for part in single)
    return Steps(
        parts[0].carried,
        tuple(term for part in made for term in part.terms),
        made,
        tuple(node for part in made for node in part.nodes),
        tuple(pair for part in made for pair in part.speculated),
        (*between, *(value for part in parts for value in part.between)),
    )


def _written(part: Pattern) -> Write | None:
    if isinstance(part, Conditional):
        return _written(part.done)
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
        return dataclasses.replace(part, done=_widened(part.done, index, width))
    assert isinstance(part, Write)
    return dataclasses.replace(part, index=index, width=width)
