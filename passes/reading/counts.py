"""Finds the number of iterations of a Loop or Scan."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.decisions import Code
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, skip_identities
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear, Quotient, Scalar
from passes.numbers.number_order import (
    greatest,
    if_positive,
    is_in_range,
    is_nonnegative,
    least,
)
from passes.numbers.written_numbers import is_writable
from passes.reading.cases import values_in_cases
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Iteration
from passes.reading.not_a_map import DoubtfulReadError, NotAMapError
from passes.reading.trip_count import TripCount
from passes.typing.value_types import Typing

__all__ = ["OPPOSITES", "check_range", "count_trips"]

_ENDLESS = (1 << 31) - 1


def count_trips(facts: LoopFacts, typing: Typing) -> TripCount:
    """Return how often the body runs.

    Args:
        facts: The Loop or Scan.
        typing: The proven typing.

    Raises:
        NotAMapError: What an iteration computes decides whether there is another.
    """
    iteration = facts.iteration
    if iteration.number is None:
        source = iteration.scanned[0][1]
        number = facts.evaluator.dimension(source.tensor, source.axis)
        if number is None:
            raise NotAMapError(Code.UNKNOWN_RANK, "nothing tells the rank of what it scans")
        return TripCount(number, number)
    trips = _count_loop(facts, typing)
    if not is_writable(trips.number):
        raise _early_exit(facts)
    return trips


def _count_loop(facts: LoopFacts, typing: Typing) -> TripCount:
    iteration = facts.iteration
    outside = Evaluator(typing, facts.inside)
    bounds = _given_bounds(iteration, outside)
    going_on = conditions(facts.evaluator, facts.iteration.next_goes_on, iteration.goes_on)
    if going_on is None:
        raise _early_exit(facts)
    first = conditions(outside, iteration.condition, None)
    facts.evaluator.through_floats |= outside.through_floats
    facts.evaluator.is_far |= outside.is_far
    facts.evaluator.in_range += outside.in_range
    if not going_on:
        if not bounds:
            raise NotAMapError(Code.EARLY_EXIT, "nothing ends it", iteration.node)
        return _gated(iteration, first, least(bounds), False)
    if iteration.condition is None:
        raise _ends_here_or_there(facts)
    after = [_further_iterations(condition, facts) for condition in going_on]
    return _conditional(iteration, bounds, after, first)


def check_range(facts: LoopFacts, trips: TripCount) -> None:
    """Check that the vectors that were read by Slice have all the numbers that were read.

    Raises:
        DoubtfulReadError: A Slice may be empty.
    """
    for position, size in facts.evaluator.in_range:
        if not is_in_range(position, size, trips.bound - 1):
            raise DoubtfulReadError(Code.NOT_A_MAP, "it may read behind the end of a vector")


def _given_bounds(iteration: Iteration, outside: Evaluator) -> list[Linear]:
    if iteration.trips is None:
        return []
    number = outside.number(iteration.trips)
    if number is None:
        number = Linear.of(Scalar(iteration.trips))
    return [] if number.number is not None and number.number >= _ENDLESS else [number]


def _conditional(
    iteration: Iteration,
    bounds: Sequence[Linear],
    after: Sequence[tuple[Linear, Linear]],
    first: list[Linear] | None,
) -> TripCount:
    """Count where each condition lets ``after`` further iterations run behind the first.

    The second number of each is positive exactly if one more than the first one is. If the
    condition outside is what the one inside would have been one iteration earlier, the count is
    the least of ``after + 1`` and needs no test.
    """
    total = _least(bounds, [number + 1 for number, _ in after])
    implied = first is not None and all(
        any(is_nonnegative(sign - f) for f in first) for _, sign in after
    )
    decides = first is not None and all(
        any(is_nonnegative(f - sign) for _, sign in after) for f in first
    )
    if first and implied and decides:
        return _gated(iteration, [], total, True)
    some = [_not_negative(number) + 1 for number, _ in after]
    return _gated(iteration, first, _least(bounds, some), True)


def _not_negative(number: Linear) -> Linear:
    """Return the greater of a number and 0; what is added to the number is added afterwards."""
    more = max(0, number.constant)
    return greatest([number - more, Linear(-more)]) + more


def _least(bounds: Sequence[Linear], numbers: Sequence[Linear]) -> Linear:
    """Return the least of some numbers; one that may be the largest int64 grows only afterwards.

    Of at most `n` iterations while `i <= limit` there are `min(n - 1, limit) + 1`.
    """
    more = max(0, *(number.constant for number in numbers)) if bounds else 0
    return least([number - more for number in (*bounds, *numbers)]) + more


def _gated(
    iteration: Iteration, first: list[Linear] | None, total: Linear, by_condition: bool
) -> TripCount:
    """Return a number of iterations, none if the condition outside is false."""
    number = greatest([total, Linear()])
    gate = None if first == [] else iteration.condition
    return TripCount(number, if_positive(total), gate, by_condition)


def _further_iterations(condition: Linear, facts: LoopFacts) -> tuple[Linear, Linear]:
    """Return how many iterations in a row a condition ``b + p * trip > 0`` holds for.

    It is 0 or less if it never does. The second number is positive exactly if one more is.
    """
    step = condition.coefficient(ITERATION)
    rest = condition.without(ITERATION)
    if step >= 0 or any(isinstance(atom, type(ITERATION)) for atom in rest.atoms()):
        raise _early_exit(facts)
    if step == -1:
        return rest, rest + 1
    if rest.number is not None:
        number = Linear(-(rest.number // step))
        return number, number + 1
    before = rest - step
    return Linear.of(Quotient(before, -step)) - 1, before


def _early_exit(facts: LoopFacts) -> NotAMapError:
    value = facts.iteration.next_goes_on
    node = None if value is None else skip_identities(value).producer()
    return NotAMapError(
        Code.EARLY_EXIT, "what an iteration computes decides whether there is another", node
    )


def _ends_here_or_there(facts: LoopFacts) -> NotAMapError:
    return NotAMapError(
        Code.EARLY_EXIT,
        "it begins without a condition: ONNX ignores then what its body yields for one, "
        "and onnxruntime ends by it",
        facts.iteration.node,
    )


def conditions(
    evaluator: Evaluator, value: ir.Value | None, always: ir.Value | None
) -> list[Linear] | None:
    """Return numbers that are all positive exactly if a boolean is true; None if not known.

    Args:
        evaluator: Knows the integers.
        value: The boolean; None is true.
        always: A value that is taken as true.
    """
    if value is None:
        return []
    value = skip_identities(value)
    if value is always:
        return []
    array = constant_value(value)
    if array is not None:
        return [] if array.size == 1 and bool(array.reshape(()).item()) else None
    node = made_by(value)
    if node is None:
        return None
    match node.op_type:
        case "And":
            parts = [conditions(evaluator, v, always) for v in node.inputs]
            found = [n for part in parts if part is not None for n in part]
            return None if None in parts else list(dict.fromkeys(found))
        case "Cast" | "Unsqueeze" | "Squeeze" | "Reshape":
            return conditions(evaluator, node.inputs[0], always)
        case "If":
            return _in_each_case(evaluator, value, always)
        case "Not":
            inner = made_by(node.inputs[0])
            asked = None if inner is None else OPPOSITES.get(inner.op_type)
            return None if inner is None else _difference(evaluator, inner, asked)
    return _difference(evaluator, node, node.op_type)


def _in_each_case(
    evaluator: Evaluator, value: ir.Value, always: ir.Value | None
) -> list[Linear] | None:
    """Return the conditions of a boolean that an If yields, if they are the same in each case."""
    found: list[list[Linear] | None] = []
    for leaf in values_in_cases(value) or [False]:
        if isinstance(leaf, bool):
            found.append([] if leaf else None)
        else:
            found.append(conditions(evaluator, leaf, always))
    return found[0] if all(one == found[0] for one in found) else None


_COMPARISONS = {"Less": (1, 0), "LessOrEqual": (1, 1), "Greater": (0, 0), "GreaterOrEqual": (0, 1)}
"""For each comparison the position of the greater operand, and 1 if both may be equal."""

OPPOSITES = {
    "Less": "GreaterOrEqual",
    "LessOrEqual": "Greater",
    "Greater": "LessOrEqual",
    "GreaterOrEqual": "Less",
}


def _difference(
    evaluator: Evaluator, node: ir.Node, comparison: str | None
) -> list[Linear] | None:
    """Return numbers that are positive exactly if the operands of a node compare so."""
    if comparison not in _COMPARISONS:
        return None
    greater, extra = _COMPARISONS[comparison]
    a, b = (evaluator.number(node.inputs[i]) for i in (greater, 1 - greater))
    if a is None or b is None:
        return None
    difference = a - b + extra
    return [] if is_nonnegative(difference - 1) else [difference]
