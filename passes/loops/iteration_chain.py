"""A few iterations of a Loop as copies of its body, each in a branch behind the one before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.node_copies import copy_body
from passes.loops.unrolled import handed_to, stacked_rows, value_now
from passes.reading.iterations import Collected, Iteration, read_iteration
from passes.typing import Typings

__all__ = ["IterationChain"]


@dataclasses.dataclass(frozen=True)
class IterationChain:
    """Iterations of a Loop, one behind the other; an If between them asks whether one is left.

    There is one copy of the body for each iteration, up to the largest number of them.

    Attributes:
        iteration: The Loop.
        collected: What of its collected values is read.
        results: The outputs of the Loop that are read: carried values, then collected ones.
        most: The largest number of iterations.
        typings: Both typings of the model; they gain the types of the copies.
    """

    iteration: Iteration
    collected: Sequence[Collected]
    results: Sequence[ir.Value]
    most: int
    typings: Typings

    @classmethod
    def of(
        cls, loop: ir.Node, read: Collection[ir.Value], most: int, typings: Typings
    ) -> IterationChain | None:
        """Read a Loop that yields tensors; None where it cannot be read.

        Args:
            loop: The Loop.
            read: What of its outputs is read.
            most: The largest number of iterations.
            typings: Both typings of the model.
        """
        iteration = read_iteration(loop)
        if iteration is None or loop.op_type != "Loop":
            return None
        collected = [one for one in iteration.collected if one.result in read]
        carried = [one.result for one in iteration.states if one.result in read]
        results = [*carried, *(one.result for one in collected)]
        return cls(iteration, collected, results, most, typings)

    def write(self, builder: Builder, count: ir.Value) -> Sequence[ir.Value]:
        """Record the chain.

        Args:
            builder: Writes the graph that the Loop stood in.
            count: The number of iterations, an int64 scalar, at most the largest one. It is at
                least 1 where something is collected.

        Returns:
            The values of the results.
        """
        states = [carried.initial for carried in self.iteration.states]
        rows: list[list[ir.Value]] = [[] for _ in self.collected]
        if not rows:
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
        builder.nodes.extend(copy_body(self.iteration.body, values))
        self.typings.copy(values)
        by_now = [
            [*row, value_now(values, one.inner)]
            for row, one in zip(rows, self.collected, strict=True)
        ]
        return [value_now(values, carried.next) for carried in self.iteration.states], by_now

    def _results(
        self, builder: Builder, states: Sequence[ir.Value], rows: Sequence[Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """Record the results as values of this graph."""
        handed_on = [
            builder.op("Identity", [state])
            for carried, state in zip(self.iteration.states, states, strict=True)
            if carried.result in self.results
        ]
        stacked = zip(self.collected, rows, strict=True)
        return [*handed_on, *(stacked_rows(builder, one, row) for one, row in stacked)]
