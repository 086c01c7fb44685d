"""A few iterations of a Loop as copies of its body, each in a branch behind the one before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.graph.node_copies import copy_body, forget_shapes
from passes.loops.lists_as_tensors import axis_of_joins, become_tensors
from passes.loops.unrolled import handed_to, stacked_rows, value_now
from passes.reading.iterations import Carried, Collected, Iteration, read_iteration
from passes.typing import Typings

__all__ = ["ChainResult", "IterationChain"]

_MAKES_ONE = ("SequenceConstruct", "SequenceInsert")
"""Operators that yield lists of one element at least."""


@dataclasses.dataclass(frozen=True)
class ChainResult:
    """What is read of a Loop.

    Attributes:
        value: The value that is read.
        output: The output of the Loop.
        join: The ConcatFromSequence that makes the value of it, where it is a list.
    """

    value: ir.Value
    output: ir.Value
    join: ir.Node | None = None


@dataclasses.dataclass(frozen=True)
class IterationChain:
    """Iterations of a Loop, one behind the other; an If between them asks whether one is left.

    There is one copy of the body for each iteration, up to the largest number of them.

    Attributes:
        iteration: The Loop.
        ends: The carried values that are read, each with what is read of it.
        collected: The collected values that are read, each with what that is.
        axes: The axis of each list that the copies join piece by piece, by the input of the body.
        most: The largest number of iterations.
        typings: Both typings of the model; they gain the types of the copies.
    """

    iteration: Iteration
    ends: Sequence[tuple[Carried, ChainResult]]
    collected: Sequence[tuple[Collected, ChainResult]]
    axes: Mapping[ir.Value, int]
    most: int
    typings: Typings

    @classmethod
    def of(
        cls, loop: ir.Node, read: Sequence[ChainResult], most: int, typings: Typings
    ) -> IterationChain | None:
        """Read a Loop whose results are tensors; None where it cannot be read.

        Args:
            loop: The Loop.
            read: What is read of it.
            most: The largest number of iterations.
            typings: Both typings of the model.
        """
        iteration = read_iteration(loop)
        if iteration is None or loop.op_type != "Loop":
            return None
        by_output = {one.output: one for one in read if one.join is None}
        collected = [
            (one, by_output[one.result]) for one in iteration.collected if one.result in by_output
        ]
        ends = [
            (state, one)
            for state in iteration.states
            for one in read
            if one.output is state.result
        ]
        axes: dict[ir.Value, int] = {}
        for state in [state for state, one in ends if not _is_written_out(state, one)]:
            joins = [one.join for other, one in ends if other is state and one.join is not None]
            axis = axis_of_joins(iteration, state, joins, typings.declared)
            if axis is None:
                return None
            axes[state.inner] = axis
        if len(ends) + len(collected) < len(read):
            return None
        return cls(iteration, ends, collected, axes, most, typings)

    @property
    def results(self) -> list[ir.Value]:
        """The values that are read."""
        return [one.value for _, one in (*self.ends, *self.collected)]

    @property
    def needs_one(self) -> bool:
        """Whether there is no result without an iteration: rows, or a list that begins empty."""
        return bool(self.collected) or any(_begins_empty(*end) for end in self.ends)

    def write(self, builder: Builder, count: ir.Value) -> Sequence[ir.Value]:
        """Record the chain.

        Args:
            builder: Writes the graph that the Loop stood in.
            count: The number of iterations, an int64 scalar, at most the largest one. It is at
                least 1 where one is needed.

        Returns:
            The values of the results.
        """
        joins = {state.inner: one.join for state, one in self.ends if state.inner in self.axes}
        states = [
            carried.initial if join is None else _joined(builder, carried.initial, join)
            for carried in self.iteration.states
            for join in [joins.get(carried.inner)]
        ]
        rows: list[list[ir.Value]] = [[] for _ in self.collected]
        if not self.needs_one:
            return self._write_from(builder, count, 0, states, rows)
        return self._write_from(builder, count, 1, *self._go_on(builder, 0, states, rows))

    def _write_from(
        self,
        builder: Builder,
        count: ir.Value,
        done: int,
        states: Sequence[ir.Value],
        rows: Sequence[Sequence[ir.Value]],
    ) -> Sequence[ir.Value]:
        """Record an If that asks whether all iterations are done, and what runs if not."""
        if done == self.most:
            return self._results(builder, states, rows)

        def write_more(inner: Builder) -> Sequence[ir.Value]:
            now = self._go_on(inner, done, states, rows)
            return self._write_from(inner, count, done + 1, *now)

        branches = {
            "then_branch": builder.subgraph("then", [], lambda b: self._results(b, states, rows)),
            "else_branch": builder.subgraph("else", [], write_more),
        }
        are_done = builder.op("Equal", [count, builder.scalar(done)])
        node = builder.node("If", [are_done], branches, outputs=len(self.results))
        for values in (node.outputs, *(graph.outputs for graph in branches.values())):
            for result, value in zip(self.results, values, strict=True):
                dtype = self.typings.declared.dtype(result)
                value.type = None if dtype is None else ir.TensorType(dtype)
        return node.outputs

    def _go_on(
        self,
        builder: Builder,
        trip: int,
        states: Sequence[ir.Value],
        rows: Sequence[Sequence[ir.Value]],
    ) -> tuple[list[ir.Value], list[list[ir.Value]]]:
        """Record one iteration; return what it hands on, and all that is collected by now."""
        values = handed_to(builder, self.iteration, trip, self.most, self.typings.proven)
        values |= {c.inner: now for c, now in zip(self.iteration.states, states, strict=True)}
        copies = copy_body(self.iteration.body, values)
        forget_shapes(copies)
        for axis in self.axes.values():
            become_tensors(copies, axis)
        builder.nodes.extend(copies)
        declared = self.typings.declared
        self.typings.copy({v: new for v, new in values.items() if not declared.is_sequence(v)})
        by_now = [
            [*row, value_now(values, one.inner)]
            for row, (one, _) in zip(rows, self.collected, strict=True)
        ]
        return [value_now(values, carried.next) for carried in self.iteration.states], by_now

    def _results(
        self, builder: Builder, states: Sequence[ir.Value], rows: Sequence[Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """Record the results as values of this graph."""
        now = dict(zip((c.inner for c in self.iteration.states), states, strict=True))
        handed_on = [
            _read(builder, now[state.inner], None if state.inner in self.axes else one.join)
            for state, one in self.ends
        ]
        stacked = zip(self.collected, rows, strict=True)
        return [*handed_on, *(stacked_rows(builder, one, row) for (one, _), row in stacked)]


def _begins_empty(state: Carried, result: ChainResult) -> bool:
    """Whether a list that is joined may have no element before the first iteration."""
    begins_with_one = is_operator(state.initial.producer(), _MAKES_ONE)
    return result.join is not None and not begins_with_one


def _is_written_out(state: Carried, result: ChainResult) -> bool:
    """Whether each iteration appends as many elements to a list: then its copies need no list."""
    value = state.next
    while is_operator(node := value.producer(), "SequenceInsert") and len(node.inputs) == 2:
        value = operand(node, 0)
    return result.join is None or (value is state.inner is not state.next)


def _read(builder: Builder, state: ir.Value, join: ir.Node | None) -> ir.Value:
    """Record what is read of a carried value, joined to a tensor where it is a list."""
    return builder.op("Identity", [state]) if join is None else _joined(builder, state, join)


def _joined(builder: Builder, state: ir.Value, join: ir.Node) -> ir.Value:
    values: dict[ir.Value, ir.Value | None] = {operand(join, 0): state}
    builder.nodes.extend(copy_body([join], values))
    return value_now(values, join.outputs[0])
