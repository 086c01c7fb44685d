"""Writes what one iteration of a Loop or Scan computes as the body of a map."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import ORIGIN_KEY, Builder
from passes.decisions import Code
from passes.graphs import walk_nodes
from passes.reading.counters import final_values, write_counter
from passes.reading.counts import Trips
from passes.reading.cuts import Cut, find_cuts
from passes.reading.dialects import name_dialect
from passes.reading.even import Even, write_even
from passes.reading.facts import Kind, LoopFacts, NotAMapError
from passes.reading.needs import Needs
from passes.reading.nodes import constant_of, copy_into, passed_on
from passes.reading.sources import Element, Reads, Window, positions
from passes.reading.types import element_type
from passes.site import IndexSource, MapSite, SequenceSource, TensorSource
from passes.typing.value_types import Typings, ValueType

__all__ = ["BodyWriter"]

_INT64 = ir.DataType.INT64

Source = SequenceSource | TensorSource


class BodyWriter:
    """Writes what one iteration computes as the body of a map."""

    def __init__(
        self,
        facts: LoopFacts,
        trips: Trips,
        typings: Typings,
        path: str,
        *,
        as_long: bool = False,
        is_even: bool = False,
    ) -> None:
        self.facts, self.trips, self.typings, self.path = facts, trips, typings, path
        self.builder = Builder(path)
        self.values: dict[ir.Value, ir.Value | None] = {}
        self.elements: list[tuple[ir.Value, Source]] = []
        self.whole: Source | None = None
        self.cuts: dict[ir.Node, Cut] = {}
        self.as_long = as_long
        self.is_even = is_even
        self.even: Even | None = None
        outer = {s.carried.inner: s.carried.initial for s in facts.of_kind(Kind.INVARIANT)}
        self.reads = Reads(
            facts.evaluator,
            facts.inside,
            outer,
            trips.number,
            trips.bound,
            trips.gate is None,
            typings.declared,
            typings.proven,
        )
        self.needs = Needs(facts, self.reads, typings.declared, is_even=is_even)
        self.index = ir.Value(name=f"{path}/sample")
        self.typings.set(self.index, lambda _: ValueType(ir.TensorType(_INT64), ()))

    def write(self, graph: ir.Graph) -> MapSite:
        """Write the body and return the site."""
        iteration = self.facts.iteration
        outputs, results = self.needs.wanted(graph)
        needed = self.needs.needed(outputs)
        self._enter_inputs(needed)
        apart = (
            n for n in walk_nodes(iteration.body) if n in needed and self.needs.read(n) is None
        )
        least = 1 if self.is_even else 2
        self.cuts = find_cuts(apart, self.reads, as_long=self.as_long, least=least)
        if self.is_even:
            self.even = self._write_even()
        self._copy(iteration.body, needed)
        body = self._close(outputs)
        number = IndexSource(self.trips.write, self._number(), self.whole)
        return MapSite(
            iteration.node,
            graph,
            self.path,
            [(self.index, number), *self.elements],
            [],
            body,
            results,
            finals=final_values(self.facts, self.trips, self.typings.proven),
            dialect=name_dialect(self.facts, self.trips),
            assumptions=self._assumptions(),
            as_long=list(
                dict.fromkeys(p for cut in self.cuts.values() for p in cut.unproven(self.reads))
            ),
            even=self.even,
        )

    def _number(self) -> int | None:
        return self.trips.number.number if self.trips.gate is None else None

    def _write_even(self) -> Even | None:
        """Record whether all Slices have one length, if that makes sense of all of them."""
        cuts = {id(cut): cut for cut in self.cuts.values()}.values()
        bounds = {self.needs.bounds(cut.start, cut.end) for cut in cuts}
        if len(cuts) != 1 or None in bounds or not self.needs.unequal <= bounds:
            raise NotAMapError(Code.RAGGED, "its slices have several bounds")
        ((start, end),) = (b for b in bounds if b is not None)
        (cut,) = cuts
        outer = Builder(self.path)
        tensor = next(iter(cut.tensors.values()))
        even = write_even(outer, start, end, tensor, self.trips.write(outer))
        self.typings.set(even.length, lambda _: ValueType(ir.TensorType(_INT64), ()))
        return even

    def _enter_inputs(self, needed: set[ir.Value | ir.Node]) -> None:
        iteration = self.facts.iteration
        if iteration.number is not None:
            self.values[iteration.number] = self.index
        if iteration.goes_on is not None and iteration.goes_on in needed:
            self.values[iteration.goes_on] = self.builder.flag(True)
        for state in self.facts.states:
            inner = state.carried.inner
            if state.kind is Kind.INVARIANT:
                self.values[inner] = state.carried.initial
            elif state.kind is Kind.COUNTER and inner in needed:
                self.values[inner] = write_counter(
                    self.builder, self.index, state, self.typings.proven
                )
        for inner, source in iteration.scanned:
            self.whole = self.whole or source
            if inner in needed:
                self.values[inner] = self._element(source, inner)

    def _copy(self, graph: ir.Graph, needed: set[ir.Value | ir.Node]) -> None:
        for node in graph:
            if node not in needed:
                continue
            read, branch = self.needs.read(node), self.needs.branch(node)
            if isinstance(read, Element):
                self.values[node.outputs[0]] = self._element(read.source, node.outputs[0])
                if read.is_whole:
                    self.whole = self.whole or read.source
            elif isinstance(read, Window):
                self.values[node.outputs[0]] = self._window(read)
            elif node in self.cuts:
                self.values[node.outputs[0]] = self._cut(node, self.cuts[node])
            elif branch is not None:
                self._copy(branch, needed)
                for old, new in zip(node.outputs, branch.outputs, strict=True):
                    self.values[old] = self.values.get(new, new)
            elif (before := passed_on(node, self.facts.evaluator)) is not None:
                self.values[node.outputs[0]] = self.values.get(before, before)
            elif (array := constant_of(node, self.facts.evaluator)) is not None:
                self.values[node.outputs[0]] = self.builder.constant(array)
            else:
                copy_into(self.builder, node, self.values, self.facts.evaluator)

    def _element(self, source: Source, read: ir.Value) -> ir.Value:
        """Return the input of the body that reads a source, by the name of what reads it."""
        for inner, known in self.elements:
            if known == source:
                return inner
        inner = ir.Value(name=read.name)
        self.elements.append((inner, source))
        self.typings.set(inner, lambda typing: element_type(source, typing))
        return inner

    def _window(self, window: Window) -> ir.Value:
        """Record a read of rows by a pattern of positions that is shifted with each sample."""
        builder = self.builder
        start = builder.op("Mul", [self.index, builder.scalar(window.step)])
        rows = builder.op("Add", [start, builder.constant(positions(window))])
        return builder.op("Gather", [window.tensor, rows], {"axis": window.axis})

    def _cut(self, node: ir.Node, cut: Cut) -> ir.Value:
        """Record a read of the rows that several Slices have in common."""
        start, end = (self.values.get(v) or v for v in (cut.start, cut.end))
        if self.even is None:
            rows = cut.write(self.builder, start, end)
        else:
            rows = cut.write_even(self.builder, start, self.even.length)
        return self.builder.op("Gather", [cut.tensors[node], rows], {"axis": 0})

    def _close(self, outputs: list[ir.Value]) -> ir.Graph:
        builder = self.builder
        own = {out for node in builder.nodes for out in node.outputs}
        made: list[ir.Value] = []
        for old in outputs:
            value = self.values.get(old, old)
            assert value is not None
            fresh = value in own and value not in made
            made.append(value if fresh else builder.op("Identity", [value]))
        builder.prune(made)
        new = (node for node in builder.nodes if ORIGIN_KEY in node.metadata_props)
        for number, node in enumerate(new):
            node.outputs[0].name = f"{self.path}/value_{number}"
        inputs = [self.index, *(inner for inner, _ in self.elements)]
        return ir.Graph(inputs, made, nodes=builder.nodes, name="sample")

    def _assumptions(self) -> list[str]:
        found = []
        if self.facts.evaluator.through_floats:
            found.append(
                f"{self.path}: its counters stay below 2^24, where the floats that it compares "
                "them as are exact"
            )
        if any(read.is_far for read in self.needs.found):
            found.append(f"{self.path}: no dimension is larger than 10^9")
        return found
