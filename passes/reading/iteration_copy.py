"""What stands in the body of a map for each value of an iteration of a Loop or Scan."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.carried.rereads.seen import Seen
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand, skip_identities
from passes.graph.node_copies import copy_of
from passes.maps.element_source import ElementSource
from passes.maps.tensor_source import TensorSource
from passes.numbers.known_numbers import write_at, write_known
from passes.reading.counters import write_counter
from passes.reading.cuts import Cut
from passes.reading.even import Even
from passes.reading.facts import Kind, LoopFacts
from passes.reading.near_rows import read_near_row
from passes.reading.needs import Needs
from passes.reading.nodes import constant_of, copy_into, ends_far, passed_on, write_range
from passes.reading.rest_of_slices import cut_rest
from passes.reading.sources import Element, Reads, Window, positions
from passes.reading.speculated import Speculated
from passes.reading.stages import Stage, Whole
from passes.reading.trip_count import TripCount
from passes.site import GuardCheck
from passes.typing.value_types import Typings, ValueType

__all__ = ["IterationCopy"]

_INT64 = ir.DataType.INT64


class IterationCopy:
    """The nodes of an iteration, copied into the body of a map, which reads elements."""

    def __init__(
        self,
        facts: LoopFacts,
        trips: TripCount,
        typings: Typings,
        path: str,
        check: GuardCheck | None,
        stage: Stage,
    ) -> None:
        self.facts, self.trips, self.typings, self.path = facts, trips, typings, path
        self.builder = Builder(path)
        self.values: dict[ir.Value, ir.Value | None] = {}
        self.elements: list[tuple[ir.Value, ElementSource]] = []
        self.shared: list[tuple[ir.Value, ir.Value]] = []
        self.seen: list[Seen] = []
        self.whole: ElementSource | None = None
        self.cuts: dict[ir.Node, Cut] = {}
        self.check = check
        self.outer = Builder(path)
        self.even: Even | None = None
        self.is_far = False
        self.speculated = Speculated(facts)
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
        is_even = check is GuardCheck.SLICES
        self.needs = Needs(facts, self.reads, typings.declared, is_even=is_even, stage=stage)
        self.index = ir.Value(name=f"{path}/sample")
        self.typings.set(self.index, lambda _: ValueType(ir.TensorType(_INT64), ()))

    def enter_inputs(self, needed: set[ir.Value | ir.Node]) -> None:
        """Enter what stands for what an iteration is given."""
        iteration = self.facts.iteration
        if iteration.number is not None:
            self.values[iteration.number] = self._as_declared(self.index, iteration.number)
        if iteration.goes_on is not None and iteration.goes_on in needed:
            goes_on = self.builder.flag(True)
            self.values[iteration.goes_on] = self._as_declared(goes_on, iteration.goes_on)
        for state in self.facts.states:
            inner = state.carried.inner
            if state.kind is Kind.INVARIANT or inner in self.needs.shaped:
                self.values[inner] = state.carried.initial
            elif state.kind is Kind.COUNTER and inner in needed:
                self.values[inner] = write_counter(
                    self.builder, self.index, state, self.typings.proven
                )
        for value, inner in self.facts.alike.items():
            if inner in self.needs.shaped:
                self.values[value] = self.values[inner]
        for inner, source in iteration.scanned:
            self.whole = self.whole or source
            if inner in needed:
                self.values[inner] = self._element(source, inner)
        for value, tensor in self.needs.stage.given.items():
            if value in needed:
                rows = TensorSource(tensor, 0, keepdims=False)
                self.whole = self.whole or rows
                self.values[value] = self._element(rows, value)
        for inner, whole in self.needs.stage.wholes.items():
            self._enter_seen(inner, whole, needed)

    def _enter_seen(self, inner: ir.Value, whole: Whole, needed: set[ir.Value | ir.Node]) -> None:
        """Enter what an iteration sees of a carried tensor, which is known behind the last one."""
        carried = next(s.carried for s in self.facts.states if s.carried.inner is inner)
        ends = {inner: False, skip_identities(carried.next): True}
        if needed.isdisjoint(ends):
            return
        read = ir.Value(name=whole.tensor.name)
        self.shared.append((read, whole.tensor))
        if whole.seen.is_copied:
            self.seen.append(whole.seen)
        self.typings.set(read, lambda typing: typing[whole.tensor])
        for value, is_after in ends.items():
            if value in needed:
                self.values[value] = whole.seen.write(
                    self.builder,
                    read,
                    lambda number: write_at(self.builder, number, self.index),
                    is_after=is_after,
                )

    def _as_declared(self, value: ir.Value, inner: ir.Value) -> ir.Value:
        """Give a number one axis where the body declares it with one: onnxruntime follows that."""
        known = self.typings.declared[inner]
        if known.dims is None or len(known.dims) != 1:
            return value
        made = self.builder.op("Unsqueeze", [value, self.builder.ints(0)])
        self.typings.set(made, lambda _: ValueType(known.type, (1,)))
        return made

    def copy(self, graph: Iterable[ir.Node], needed: set[ir.Value | ir.Node]) -> None:
        """Copy what is needed of some nodes; what is read by position is an element, or rows."""
        for node in graph:
            if node not in needed:
                continue
            read, branch = self.needs.read(node), self.needs.branch(node)
            if isinstance(read, Element):
                self.values[node.outputs[0]] = self._read(node, read)
                if read.is_whole:
                    self.whole = self.whole or read.source
                else:
                    self.speculated.enter(node, None)
            elif isinstance(read, Window):
                self.values[node.outputs[0]] = self._window(read)
                if not read.is_there:
                    self.speculated.enter(node, None)
            elif node in self.cuts:
                self.values[node.outputs[0]] = self._cut(node, self.cuts[node])
            elif branch is not None:
                self.copy(branch, needed)
                for old, new in zip(node.outputs, branch.outputs, strict=True):
                    self.values[old] = copy_of(self.values, new)
            elif (before := passed_on(node, self.facts.evaluator)) is not None:
                self.values[node.outputs[0]] = copy_of(self.values, before)
                self.is_far |= ends_far(node, self.facts.evaluator)
            elif (array := constant_of(node, self.facts.evaluator)) is not None:
                self.values[node.outputs[0]] = self.builder.constant(array)
            elif (numbers := self._range(node) or self._known(node)) is not None:
                self.values[node.outputs[0]] = numbers
            elif (row := self._near_row(node)) is not None:
                self.values[node.outputs[0]] = row
            else:
                self._copy_one(node, needed)
                self.speculated.enter(node, self.builder.nodes[-1])

    def _copy_one(self, node: ir.Node, needed: set[ir.Value | ir.Node]) -> None:
        """Copy a node, which may read another value in the copy."""
        values, instead = self.values, self.needs.instead(node)
        if instead is not None:
            before, after = instead
            values = {**values, before: copy_of(values, after)}
        copy_into(self.builder, node, values, self.facts.evaluator, needed)
        self.values |= {value: values[value] for value in node.outputs if value in values}

    def _range(self, node: ir.Node) -> ir.Value | None:
        """Record the numbers of a Range that counts as far in every iteration."""
        if not is_operator(node, "Range"):
            return None
        start = copy_of(self.values, operand(node, 0))
        return write_range(self.builder, node, start, self.facts.evaluator)

    def _near_row(self, node: ir.Node) -> ir.Value | None:
        """Record a row that a branch reads where it is there, and another one where it is not."""
        return read_near_row(self.builder, node, self.values, self.facts, self.reads.bound)

    def _known(self, node: ir.Node) -> ir.Value | None:
        """Record integers that floats, or no types, tell."""
        return write_known(self.builder, node, self.index, self.facts.evaluator)

    def _element(self, source: ElementSource, read: ir.Value) -> ir.Value:
        """Return the input of the body that reads a source, by the name of what reads it."""
        for inner, known in self.elements:
            if known == source:
                return inner
        inner = ir.Value(name=read.name)
        self.elements.append((inner, source))
        self.typings.set(inner, source.element_type)
        return inner

    def _read(self, node: ir.Node, read: Element) -> ir.Value:
        """Return the element, without what a Slice cuts off along its other axes."""
        element = self._element(read.source, node.outputs[0])
        if not read.rest:
            return element
        evaluator = self.facts.evaluator
        return cut_rest(self.builder, element, node, read.rest, self.values, evaluator)

    def _window(self, window: Window) -> ir.Value:
        """Record a read of rows by a pattern of positions that is shifted with each sample."""
        builder, start = self.builder, self.index
        if window.step != 1:
            start = builder.op("Mul", [start, builder.scalar(window.step)])
        rows = builder.op("Add", [start, builder.constant(positions(window))])
        return builder.op("Gather", [window.tensor, rows], {"axis": window.axis})

    def _cut(self, node: ir.Node, cut: Cut) -> ir.Value:
        """Record a read of the rows that several Slices have in common."""
        start, end = (copy_of(self.values, v) for v in (cut.start, cut.end))
        if self.even is None:
            rows = cut.write(self.builder, start, end)
        else:
            rows = cut.write_even(self.builder, start, self.even.length)
        return self.builder.op("Gather", [cut.tensors[node], rows], {"axis": 0})
