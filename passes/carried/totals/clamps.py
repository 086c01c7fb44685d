"""Values that stay within bounds of each iteration: ``s = min(h_i, max(l_i, s))``.

Two such steps, one behind the other, are one: the least bound of both is ``max(l2, l1)``, and the
greatest ``min(h2, max(l2, h1))``. Nothing is rounded, and a NaN stays one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.pattern import Term, added, dependent_values, path_through
from passes.carried.totals.doubling import check_steps, doubled
from passes.carried.totals.filled import RunningPattern, expanded
from passes.carried.totals.reductions import TYPES
from passes.graph.builder import Builder
from passes.graph.made import made_by, operand, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["Clamped", "find_clamped"]


@dataclasses.dataclass(frozen=True)
class Clamped(RunningPattern):
    """A carried value that is kept within bounds.

    Attributes:
        terms: The least and the greatest bound of an iteration.
    """

    name = "value within bounds"
    keeps_shape = "by its terms"

    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations.

        The initial value is a step of its own: it is both bounds there.

        Raises:
            NotAMapError: The number of iterations is known, and too large, or the shape is not
                proven to stay as it is.
        """
        self.check_shape(joined)
        check_steps(joined, self.carried)
        builder, initial = joined.builder, self.carried.initial
        rank = joined.rank(initial)
        first = builder.op("Unsqueeze", [initial, builder.ints(0)])
        bounds = [
            builder.op("Concat", [first, expanded(joined, self.carried, at, rank)], {"axis": 0})
            for at in range(2)
        ]
        return doubled(joined, bounds, _joined)[1]


def _joined(builder: Builder, values: Sequence[ir.Value], read: ir.Value) -> list[ir.Value]:
    """Record each step behind the one that stands so many rows before it."""
    low, high = values
    low1, high1 = (builder.op("Gather", [value, read], {"axis": 0}) for value in values)
    least = builder.op("Max", [low, low1])
    return [least, builder.op("Min", [high, builder.op("Max", [low, high1])])]


def find_clamped(carried: Carried, iteration: Iteration, typing: Typing) -> Clamped | None:
    """Return the bounds of a carried value: a chain of Max, Min and Clip; None if it is none."""
    steps = _steps(carried, iteration)
    if steps is None or typing.dtype(carried.initial) not in TYPES["Max"] & TYPES["Min"]:
        return None
    low: ir.Value | None = None
    high: ir.Value | None = None
    nodes: list[ir.Node] = []

    def both(op_type: str, one: ir.Value | None, other: ir.Value) -> ir.Value:
        if one is None:
            return other
        nodes.append(added(op_type, [one, other]))
        return nodes[-1].outputs[0]

    for op_type, bound in steps:
        if op_type == "Max":
            low = both("Max", low, bound)
            high = None if high is None else both("Max", high, bound)
        else:
            high = both("Min", high, bound)
    if low is None or high is None:
        return None  # one of them alone is an extreme
    return Clamped(carried, (Term(low), Term(high)), nodes=tuple(nodes))


def _steps(carried: Carried, iteration: Iteration) -> list[tuple[str, ir.Value]] | None:
    """Return by what a carried value is bounded, in order, each bound as Max or Min."""
    body = iteration.body
    dependent = dependent_values(body, carried.inner)
    value, found = skip_identities(carried.next), list[tuple[str, ir.Value]]()
    while value is not carried.inner:
        node = made_by(value, "Max", "Min", "Clip", body=body)
        own = None if node is None else _own(node, dependent)
        if own is None:
            return None
        value, steps = own
        found = [*steps, *found]
    return found


def _own(
    node: ir.Node, dependent: set[ir.Value]
) -> tuple[ir.Value, list[tuple[str, ir.Value]]] | None:
    """Return what a node bounds, which depends on a carried value, and the bounds."""
    if node.op_type == "Clip":
        given = zip(("Max", "Min"), node.inputs[1:], strict=False)
        bounds = [(kind, v) for kind, v in given if v is not None]
        is_alone = dependent.isdisjoint(v for _, v in bounds)
        return (skip_identities(operand(node, 0)), bounds) if is_alone else None
    path = path_through(node, dependent)
    if path is None:
        return None
    return skip_identities(operand(node, path[0])), [(node.op_type, v) for v in path[1]]
