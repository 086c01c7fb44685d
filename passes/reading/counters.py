"""Counters of a Loop: what they are in each iteration, and behind the last one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_used
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.trip_count import TripCount
from passes.typing.value_types import Typing

__all__ = ["final_values", "write_counter"]

_INT64 = ir.DataType.INT64


def write_counter(builder: Builder, index: ir.Value, state: State, typing: Typing) -> ir.Value:
    """Record a counter as the number of the sample, scaled and shifted.

    Args:
        builder: Writes the body.
        index: The number of the sample.
        state: The counter.
        typing: The proven typing.
    """
    value = index
    if state.step != 1:
        value = builder.op("Mul", [value, builder.scalar(state.step)])
    if state.first.number != 0:
        value = builder.op("Add", [value, _first(builder, state)])
    return _like_carried(builder, value, state, typing)


def final_values(
    facts: LoopFacts, trips: TripCount, typing: Typing
) -> Mapping[ir.Value, Callable[[Builder], ir.Value]]:
    """Return what records each carried value that a Loop yields, appended sequences apart.

    Args:
        facts: The Loop or Scan.
        trips: How often its body runs.
        typing: The proven typing.
    """
    finals: dict[ir.Value, Callable[[Builder], ir.Value]] = {}
    for state in facts.states:
        if not is_used(state.carried.result):
            continue
        if state.kind is Kind.INVARIANT:
            finals[state.carried.result] = functools.partial(_initial, state)
        elif state.kind is Kind.COUNTER:
            finals[state.carried.result] = functools.partial(_last, state, trips, typing)
    return finals


def _initial(state: State, builder: Builder) -> ir.Value:
    return state.carried.initial


def _last(state: State, trips: TripCount, typing: Typing, builder: Builder) -> ir.Value:
    """Record the value of a counter behind the last iteration."""
    value = builder.weighted_sum([(trips.write(builder), state.step)], 0)
    if state.first.number != 0:
        value = builder.op("Add", [value, _first(builder, state)])
    scalar = builder.op("Reshape", [value, builder.ints()])
    return _like_carried(builder, scalar, state, typing)


def _first(builder: Builder, state: State) -> ir.Value:
    if state.first.number is not None:
        return builder.scalar(state.first.number)
    whole = builder.op("Cast", [state.carried.initial], {"to": int(_INT64)})
    return builder.op("Reshape", [whole, builder.ints()])


def _like_carried(builder: Builder, value: ir.Value, state: State, typing: Typing) -> ir.Value:
    """Give a number the element type and rank of a counter."""
    carried = state.carried
    dtype = typing.dtype(carried.initial) or typing.dtype(carried.inner)
    dims = typing.dims(carried.initial)
    if dims is None:
        dims = typing.dims(carried.inner)
    if dtype is not None and dtype != _INT64:
        value = builder.op("Cast", [value], {"to": int(dtype)})
    return value if dims == () else builder.op("Reshape", [value, builder.ints(1)])
