"""Finds several writes of one iteration to a carried tensor, one behind the other.

Those of other iterations may meet them: ``a[i, j] = 1; a[j, i] = 1`` writes to two places in each
iteration. The places of all iterations stand in the order of the writes then, and what is written
last to each place holds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.crossing_writes import CrossingWrites, crossing
from passes.carried.find_conditional import Find, reread
from passes.carried.find_writes import SCATTERS
from passes.carried.joined import Joined
from passes.carried.last_ones import OLDEST_SCATTER
from passes.carried.last_places import LastWrite, find_last_write, scatter_last
from passes.carried.pattern import ASK_SHAPE, Pattern, Term, dependent_values
from passes.carried.steps import Steps, in_steps
from passes.carried.writes import Write
from passes.decisions import Code
from passes.graph.graphs import reads_of, subgraphs
from passes.graph.made import made_by, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import BEHIND, name_of_carried
from passes.typing.value_types import Typing

__all__ = ["find_steps"]


@dataclasses.dataclass(frozen=True)
class WritesInTurn(Pattern):
    """Writes of an iteration, in order.

    Attributes:
        carried: Where the tensor stands.
        terms: Those of all writes, one behind the other.
        parts: The writes.
        nodes: What computes the terms beside the body.
        between: What the tensor is behind each write but the last.
        is_dear: Whether an iteration may write to many places, which cost more to sort.
    """

    carried: Carried
    terms: tuple[Term, ...]
    parts: tuple[LastWrite, ...]
    nodes: tuple[ir.Node, ...] = ()
    between: tuple[ir.Value, ...] = ()
    is_dear: bool = False
    name = "carried writes by index"
    keeps_shape = "as it is made"
    needs_sizes = False
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
    return WritesInTurn(
        parts[0].carried,
        tuple(term for part in single for term in part.terms),
        tuple(single),
        tuple(node for part in single for node in part.nodes),
        (*between, *(value for part in parts for value in part.between)),
        any(part.is_dear for part in single),
    )


def find_steps(
    carried: Carried, facts: LoopFacts, typing: Typing, find: Find
) -> Steps | WritesInTurn | CrossingWrites | None:
    """Return the writes of an iteration; the last one is a scatter or an If.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing.
        find: Finds what a value was written with.
    """
    before = _before(carried, facts)
    if before is None:
        return None
    first = find(dataclasses.replace(carried, next=before), facts, typing)
    if first is None:
        return None
    last = find(dataclasses.replace(carried, inner=before), facts, typing)
    if last is None or _reads_elements(last, carried, facts):
        return None
    for node in last.nodes:
        reread(node, {before: carried.inner})
    parts = [first, last]
    found = in_steps(parts, [before]) or in_turn(parts, [before])
    if found is not None:
        return found
    turn = in_turn(_at_any_places(parts, carried, facts), [before])
    if turn is not None and not turn.is_dear:
        return turn
    return crossing(parts, [before], typing.dtype(carried.initial)) or turn


def _at_any_places(
    parts: Sequence[Pattern], carried: Carried, facts: LoopFacts
) -> Sequence[Pattern]:
    """Return writes as such that those of other iterations may meet; none if one of them is not.

    Args:
        parts: The writes.
        carried: The tensor that an iteration begins with.
        facts: The Loop or Scan.
    """
    found: list[Pattern] = []
    for part in parts:
        for one in part.parts if isinstance(part, Steps | WritesInTurn) else (part,):
            again = one if isinstance(one, LastWrite) else _as_last_write(one, facts)
            if again is None or _reads_elements(again, carried, facts):
                return ()
            for node in again.nodes:
                reread(node, {one.carried.inner: carried.inner})
            found.append(again)
    return found


def _as_last_write(pattern: Pattern, facts: LoopFacts) -> LastWrite | None:
    """Return a write as one that others may meet, None for what some iterations write only."""
    return find_last_write(pattern.carried, facts) if isinstance(pattern, Write) else None


def _before(carried: Carried, facts: LoopFacts) -> ir.Value | None:
    """Return what the last of several writes writes to."""
    node = made_by(carried.next, "If", *SCATTERS, body=facts.scope)
    if node is None:
        return None
    data = _kept(carried, node) if node.op_type == "If" else node.inputs[0]
    if made_by(data, body=facts.scope) is None:
        return None
    return None if data is None else skip_identities(data)


def _kept(carried: Carried, node: ir.Node) -> ir.Value | None:
    """Return what a branch of an If hands on that computes nothing itself."""
    at = list(node.outputs).index(skip_identities(carried.next))
    for _, graph in subgraphs(node):
        value = skip_identities(graph.outputs[at])
        made = value.producer()
        if made is None or made.graph is not graph:
            return value
    return None


def _reads_elements(pattern: Pattern, carried: Carried, facts: LoopFacts) -> bool:
    """Whether a pattern reads more than the shape of what an iteration begins with."""
    dependent = dependent_values(facts.scope, carried.inner)
    read = {term.value for term in pattern.terms}
    read |= {v for node in pattern.nodes if node.op_type not in ASK_SHAPE for v in reads_of(node)}
    return not read.isdisjoint(dependent)
