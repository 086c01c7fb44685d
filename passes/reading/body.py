"""Writes what one iteration of a Loop or Scan computes as the body of a map."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import onnx_ir as ir

from passes.builder import ORIGIN_KEY, Builder
from passes.decisions import Code
from passes.graphs import (
    captured_values,
    is_default_domain,
    subgraphs,
    walk_nodes,
)
from passes.reading.counts import Trips
from passes.reading.cuts import Cut, find_cuts
from passes.reading.dialects import name_dialect
from passes.reading.even import Even, entry_of, write_even
from passes.reading.facts import (
    Kind,
    LoopFacts,
    NotAMapError,
    State,
    skip_identities,
    why_carried,
)
from passes.reading.nodes import constant_of, copy_into, passed_on
from passes.reading.sources import Element, Reads, Window, find_read, positions
from passes.reading.types import element_type
from passes.sequence_map import results_of
from passes.site import IndexSource, MapSite, Result, SequenceSource, TensorSource
from passes.typing.value_types import Typing, Typings, ValueType

__all__ = ["BodyWriter"]

_INT64 = ir.DataType.INT64

Source = SequenceSource | TensorSource
Bounds = tuple[tuple[ir.Value, int], tuple[ir.Value, int]]


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
        self.far = False
        self.found: dict[ir.Node, Element | Window | None] = {}
        self.cuts: dict[ir.Node, Cut] = {}
        self.as_long = as_long
        self.is_even = is_even
        self.even: Even | None = None
        self.unequal: set[Bounds] = set()
        self.states = {state.carried.inner: state for state in facts.states}
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
        self.index = ir.Value(name=f"{path}/sample")
        self._set(self.index, lambda _: ValueType(ir.TensorType(_INT64), ()))

    def _set(self, value: ir.Value, type_of: Callable[[Typing], ValueType]) -> None:
        for typing in (self.typings.declared, self.typings.proven):
            typing.set(value, type_of(typing))

    def write(self, graph: ir.Graph) -> MapSite:
        """Write the body and return the site."""
        iteration = self.facts.iteration
        outputs, results = self._wanted(graph)
        needed = self._needed(outputs)
        self._enter_inputs(needed)
        apart = (n for n in walk_nodes(iteration.body) if n in needed and self._read(n) is None)
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
            finals=self._finals(),
            dialect=name_dialect(self.facts, self.trips),
            assumptions=self._assumptions(),
            as_long=list(
                dict.fromkeys(p for cut in self.cuts.values() for p in cut.unproven(self.reads))
            ),
            even=self.even,
        )

    def _number(self) -> int | None:
        return self.trips.number.number if self.trips.gate is None else None

    def _wanted(self, graph: ir.Graph) -> tuple[list[ir.Value], list[Result]]:
        """Return the values of the body that leave the map, and how."""
        outputs: dict[ir.Value, int] = {}
        results: list[Result] = []
        for one in self.facts.iteration.collected:
            if _is_used(one.result):
                at = outputs.setdefault(one.inner, len(outputs))
                results.append(Result(at, "stacked", one.result, one.axis, one.is_reversed))
        for state in self.facts.states:
            if not _is_used(state.carried.result):
                continue
            if state.kind is Kind.OTHER:
                raise why_carried(state, None, self.typings.declared)
            if state.element is not None:
                at = outputs.setdefault(state.element, len(outputs))
                results.extend(results_of(at, state.carried.result, graph))
        return list(outputs), results

    def _needed(self, outputs: list[ir.Value]) -> set[ir.Value | ir.Node]:
        """Return the nodes of the body that the outputs depend on, and the inputs.

        Raises:
            NotAMapError: They depend on what an earlier iteration computed.
        """
        needed: set[ir.Value | ir.Node] = set()
        pending: list[tuple[ir.Value, ir.Node | None]] = [(v, None) for v in outputs]
        while pending:
            value, reader = pending.pop()
            if value in needed:
                continue
            needed.add(value)
            state = self.states.get(value)
            if state is not None and state.kind in (Kind.OTHER, Kind.APPENDED):
                raise why_carried(state, reader, self.typings.declared)
            node = value.producer()
            if node is None or value not in self.facts.inside:
                continue
            needed.add(node)
            pending.extend((v, node) for v in self._dependencies(node))
        return needed

    def _dependencies(self, node: ir.Node) -> list[ir.Value]:
        if self._read(node) is not None:
            return []
        branch = self._branch(node)
        if branch is not None:
            return list(branch.outputs)
        captured = [v for _, g in subgraphs(node) for v in captured_values(g)]
        return [v for v in (*node.inputs, *captured) if v is not None]

    def _read(self, node: ir.Node) -> Element | Window | None:
        if node not in self.found:
            self.found[node] = find_read(node, self.reads)
        return self.found[node]

    def _branch(self, node: ir.Node) -> ir.Graph | None:
        """Return the branch that an If takes in every iteration, if that is known."""
        if node.op_type != "If" or not is_default_domain(node):
            return None
        if self.is_even and self._asks_for_rows(node.inputs[0]):
            return node.attributes["else_branch"].as_graph()
        condition = self.facts.evaluator.number(node.inputs[0])
        if condition is None or condition.number is None:
            return None
        name = "then_branch" if condition.number else "else_branch"
        return node.attributes[name].as_graph()

    def _bounds(self, one: ir.Value | None, other: ir.Value | None) -> Bounds | None:
        """Return the vectors whose entries two numbers are, and where they begin."""
        start, end = (entry_of(self.facts.evaluator.number(v)) for v in (one, other))
        return None if start is None or end is None else (start, end)

    def _asks_for_rows(self, condition: ir.Value | None) -> bool:
        """Whether a boolean is true exactly if a slice starts where it ends."""
        node = None if condition is None else skip_identities(condition).producer()
        if node is None or node.op_type != "Equal" or not is_default_domain(node):
            return False
        bounds = self._bounds(*node.inputs)
        if bounds is not None:
            self.unequal.add(bounds)
        return bounds is not None

    def _write_even(self) -> Even | None:
        """Record whether all Slices have one length, if that makes sense of all of them."""
        cuts = {id(cut): cut for cut in self.cuts.values()}.values()
        bounds = {self._bounds(cut.start, cut.end) for cut in cuts}
        if len(cuts) != 1 or None in bounds or not self.unequal <= bounds:
            raise NotAMapError(Code.RAGGED, "its slices have several bounds")
        ((start, end),) = (b for b in bounds if b is not None)
        (cut,) = cuts
        outer = Builder(self.path)
        tensor = next(iter(cut.tensors.values()))
        even = write_even(outer, start, end, tensor, self.trips.write(outer))
        self._set(even.length, lambda _: ValueType(ir.TensorType(_INT64), ()))
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
                self.values[inner] = self._counter(state)
        for inner, source in iteration.scanned:
            self.whole = self.whole or source
            if inner in needed:
                self.values[inner] = self._element(source, inner)

    def _counter(self, state: State) -> ir.Value:
        """Record a counter as the number of the sample, scaled and shifted."""
        builder, value = self.builder, self.index
        if state.step != 1:
            value = builder.op("Mul", [value, builder.scalar(state.step)])
        value = builder.op("Add", [value, self._first(builder, state)])
        return self._like_carried(builder, value, state)

    def _first(self, builder: Builder, state: State) -> ir.Value:
        if state.first.number is not None:
            return builder.scalar(state.first.number)
        whole = builder.op("Cast", [state.carried.initial], {"to": int(_INT64)})
        return builder.op("Reshape", [whole, builder.ints()])

    def _like_carried(self, builder: Builder, value: ir.Value, state: State) -> ir.Value:
        """Give a number the element type and rank of a counter."""
        typing, carried = self.typings.proven, state.carried
        dtype = typing.dtype(carried.initial) or typing.dtype(carried.inner)
        dims = typing.dims(carried.initial)
        if dims is None:
            dims = typing.dims(carried.inner)
        if dtype is not None and dtype != _INT64:
            value = builder.op("Cast", [value], {"to": int(dtype)})
        return value if dims == () else builder.op("Reshape", [value, builder.ints(1)])

    def _copy(self, graph: ir.Graph, needed: set[ir.Value | ir.Node]) -> None:
        for node in graph:
            if node not in needed:
                continue
            read, branch = self._read(node), self._branch(node)
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
        self._set(inner, lambda typing: element_type(source, typing))
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

    def _finals(self) -> Mapping[ir.Value, Callable[[Builder], ir.Value]]:
        finals: dict[ir.Value, Callable[[Builder], ir.Value]] = {}
        for state in self.facts.states:
            if not _is_used(state.carried.result):
                continue
            if state.kind is Kind.INVARIANT:
                finals[state.carried.result] = functools.partial(_initial, state)
            elif state.kind is Kind.COUNTER:
                finals[state.carried.result] = functools.partial(self._last, state)
        return finals

    def _last(self, state: State, builder: Builder) -> ir.Value:
        """Record the value of a counter behind the last iteration."""
        count = self.trips.write(builder)
        grown = builder.op("Mul", [count, builder.ints(state.step)])
        value = builder.op("Add", [grown, self._first(builder, state)])
        scalar = builder.op("Reshape", [value, builder.ints()])
        return self._like_carried(builder, scalar, state)

    def _assumptions(self) -> list[str]:
        found = []
        if self.facts.evaluator.through_floats:
            found.append(
                f"{self.path}: its counters stay below 2^24, where the floats that it compares "
                "them as are exact"
            )
        if any(isinstance(read, Window) and read.is_far for read in self.found.values()) or any(
            isinstance(read, Element) and read.is_far for read in self.found.values()
        ):
            found.append(f"{self.path}: no dimension is larger than 10^9")
        return found


def _initial(state: State, builder: Builder) -> ir.Value:
    return state.carried.initial


def _is_used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
