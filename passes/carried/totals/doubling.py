"""What rows hold of all rows before them, in steps of twice as many rows each.

In the step of one row each row is joined to the one before it, in the next to the one two before,
and so on, until row ``i`` holds all rows from 0 to ``i``. A step of more rows than there are
changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from passes.carried.common.widths import IN_STEPS, check_width
from passes.carried.joined import Joined
from passes.decisions import Code
from passes.graph.builder import BATCHED_KEY, Builder, tensor_value
from passes.graph.looped_branches import offer_loop
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["Step", "check_steps", "doubled"]

_MOST_STEPS = 12
"""The steps of a known number of iterations; each reads and writes all rows."""

_STAGES = (0, 1, 3, 6, 10, 14, 39)
"""Of an unknown number: the step of up to 2 rows, those of up to 8, and so on to as many as no
memory holds. Each stage runs where the ones before it do not reach."""

_UNROLLED = 3
"""So many steps are never part of a Loop: it pays for more of them."""

_INT64 = ir.DataType.INT64
_BOOL = ir.DataType.BOOL

Step = Callable[[Builder, Sequence[ir.Value], ir.Value], list[ir.Value]]
"""Records a step: given tensors of as many rows each, and for each row the place of the row that
it is joined to."""


def check_steps(joined: Joined, carried: Carried, widest: int = IN_STEPS) -> None:
    """Check that there are not too many steps, nor too wide rows.

    Args:
        joined: Writes the graph.
        carried: The carried value.
        widest: So many bytes may a row have.

    Raises:
        NotAMapError: The number of iterations is known, and too large; or a row is too wide.
    """
    check_width(joined, carried, widest)
    count = joined.trips.static
    if count is not None and count.bit_length() > _MOST_STEPS:
        detail = f"'{carried.inner.name}' needs running totals of more than 4,095 iterations"
        raise NotAMapError(Code.RECURRENCE, detail, carried.next.producer())


def doubled(
    joined: Joined, values: Sequence[ir.Value], step: Step, *, behind: int = 0
) -> list[ir.Value]:
    """Record all steps.

    Args:
        joined: Writes the graph.
        values: Tensors of as many rows each, one more than there are iterations.
        step: Records one step.
        behind: How many rows stand in front of the ones that a step reads: a place that lies
            before all rows is that of the first one of them all.
    """
    builder, known = joined.builder, joined.trips.static
    sizes = builder.op("Shape", [values[0]])
    number = builder.op("Gather", [sizes, builder.scalar(0)], {"axis": 0})
    steps = _Steps(number, builder.arange(number), step, behind)
    if known is not None:
        return steps.unrolled(builder, values, range(known.bit_length()))
    if not joined.branches:
        return steps.unrolled(builder, values, range(_STAGES[-1]))
    return steps.staged(builder, values, _STAGES)


@dataclasses.dataclass(frozen=True)
class _Steps:
    """What all steps share.

    Attributes:
        number: How many rows each has.
        places: The numbers of the rows.
        step: Records one step.
        behind: How many rows stand in front of the ones that a step reads.
    """

    number: ir.Value
    places: ir.Value
    step: Step
    behind: int

    def unrolled(
        self, builder: Builder, values: Sequence[ir.Value], exponents: Iterable[int]
    ) -> list[ir.Value]:
        """Record the steps of ``2 ** exponent`` rows each."""
        found = list(values)
        for exponent in exponents:
            by = (1 << exponent) - self.behind
            read = self._before(builder, builder.scalar(by)) if by else self.places
            found = self.step(builder, found, read)
        return found

    def staged(
        self, builder: Builder, values: Sequence[ir.Value], stages: Sequence[int]
    ) -> list[ir.Value]:
        """Record the steps of a stage, and those of the others in a branch."""
        first, last, *rest = stages
        found = self.unrolled(builder, values, range(first, last))
        if not rest:
            return found
        is_longer = builder.op("Greater", [self.number, builder.scalar(1 << last)])
        graphs = {
            "then_branch": builder.subgraph(
                "then", [], lambda b: self.staged(b, found, stages[1:])
            ),
            "else_branch": builder.subgraph(
                "else", [], lambda b: [b.op("Identity", [value]) for value in found]
            ),
        }
        node = builder.node("If", [is_longer], graphs, outputs=len(found))
        if last == _UNROLLED:
            offer_loop(node, lambda b: self._looped(b, found, 1 << last))
        return list(node.outputs)

    def _looped(self, builder: Builder, values: Sequence[ir.Value], first: int) -> list[ir.Value]:
        """Record a Loop of all steps from one on; there is at least that one."""
        number, go = tensor_value("step", _INT64, []), tensor_value("go", _BOOL, [])
        by = tensor_value("by", _INT64, [])
        states = [ir.Value(name=f"rows_{i}") for i, _ in enumerate(values)]

        def write(inner: Builder) -> list[ir.Value]:
            found = self.step(inner, states, self._before(inner, by))
            twice = inner.op("Add", [by, by])
            if self.behind:
                twice = inner.op("Add", [twice, inner.scalar(self.behind)])
            return [inner.op("Less", [twice, self.number]), twice, *found]

        body = builder.subgraph("doubling", [number, go, by, *states], write)
        inputs = [builder.scalar(_STAGES[-1]), None, builder.scalar(first - self.behind), *values]
        loop = builder.node("Loop", inputs, {"body": body}, outputs=1 + len(values))
        loop.metadata_props[BATCHED_KEY] = builder.origin
        return list(loop.outputs[1:])

    def _before(self, builder: Builder, by: ir.Value) -> ir.Value:
        """Record the places so many before each, the first one where there is none."""
        return builder.op("Max", [builder.op("Sub", [self.places, by]), builder.scalar(0)])
