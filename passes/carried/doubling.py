"""What rows hold of all rows before them, in steps of twice as many rows each.

In the step of one row each row is joined to the one before it, in the next to the one two before,
and so on, until row ``i`` holds all rows from 0 to ``i``. A step of more rows than there are
changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.widths import IN_STEPS, check_width
from passes.decisions import Code
from passes.graph.builder import Builder
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = ["check_steps", "doubled"]

_MOST_STEPS = 12
"""The steps of a known number of iterations; each reads and writes all rows."""

_STAGES = (0, 1, 3, 6, 10, 14, 39)
"""Of an unknown number: the step of up to 2 rows, those of up to 8, and so on to as many as no
memory holds. Each stage runs where the ones before it do not reach."""

Step = Callable[[Builder, Sequence[ir.Value], ir.Value, int], list[ir.Value]]


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


def doubled(joined: Joined, values: Sequence[ir.Value], step: Step) -> list[ir.Value]:
    """Record all steps.

    Args:
        joined: Writes the graph.
        values: Tensors of as many rows each, one more than there are iterations.
        step: Records one step: given such tensors, the numbers of their rows, and how many rows
            before each the one stands that it is joined to.
    """
    builder, known = joined.builder, joined.trips.static
    sizes = builder.op("Shape", [values[0]])
    number = builder.op("Gather", [sizes, builder.scalar(0)], {"axis": 0})
    places = builder.arange(number)
    if known is not None:
        return _steps(builder, values, step, places, range(known.bit_length()))
    if not joined.branches:
        return _steps(builder, values, step, places, range(_STAGES[-1]))
    return _staged(builder, values, step, _Rows(number, places), _STAGES)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """How many rows each step has, and their numbers: all steps have as many."""

    number: ir.Value
    places: ir.Value


def _steps(
    builder: Builder,
    values: Sequence[ir.Value],
    step: Step,
    places: ir.Value,
    exponents: Iterable[int],
) -> list[ir.Value]:
    """Record the steps of ``2 ** exponent`` rows each."""
    found = list(values)
    for exponent in exponents:
        found = step(builder, found, places, 1 << exponent)
    return found


def _staged(
    builder: Builder, values: Sequence[ir.Value], step: Step, rows: _Rows, stages: Sequence[int]
) -> list[ir.Value]:
    """Record the steps of a stage, and those of the others in a branch."""
    first, last, *rest = stages
    found = _steps(builder, values, step, rows.places, range(first, last))
    if not rest:
        return found
    is_longer = builder.op("Greater", [rows.number, builder.scalar(1 << last)])
    graphs = {
        "then_branch": builder.subgraph(
            "then", [], lambda b: _staged(b, found, step, rows, stages[1:])
        ),
        "else_branch": builder.subgraph(
            "else", [], lambda b: [b.op("Identity", [value]) for value in found]
        ),
    }
    return list(builder.node("If", [is_longer], graphs, outputs=len(found)).outputs)
