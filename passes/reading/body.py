"""Writes what one iteration of a Loop or Scan computes as the body of a map."""

from __future__ import annotations

import onnx_ir as ir

from passes.decisions import Code
from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import walk_nodes
from passes.graph.node_copies import copy_of
from passes.maps.index_source import IndexSource
from passes.reading.counters import final_values
from passes.reading.cuts import find_cuts
from passes.reading.even import Even, bounds_of, write_equally_long, write_even
from passes.reading.iteration_copy import IterationCopy
from passes.reading.loop_reading import LoopReading, name_dialect
from passes.reading.not_a_map import NotAMapError
from passes.site import Condition, GuardCheck, MapSite
from passes.typing.value_types import ValueType

__all__ = ["BodyWriter"]

_INT64 = ir.DataType.INT64


class BodyWriter(IterationCopy):
    """Writes what one iteration computes as the body of a map."""

    def find_ahead(self, graph: ir.Graph) -> frozenset[ir.Value]:
        """Return the carried values that other nodes read and that a first map can compute."""
        self.needs.ahead = {}
        outputs, _ = self.needs.wanted(graph)
        self.needs.needed(outputs)
        return frozenset(self.needs.ahead)

    def write(self, graph: ir.Graph) -> LoopReading:
        """Write the body and return the map."""
        iteration = self.facts.iteration
        outputs, results = self.needs.wanted(graph)
        needed = self.needs.needed(outputs)
        self.enter_inputs(needed)
        apart = (
            n for n in walk_nodes(iteration.body) if n in needed and self.needs.read(n) is None
        )
        is_even = self.check is GuardCheck.SLICES
        as_long, least = self.check is GuardCheck.SIZES, 1 if is_even else 2
        self.cuts = find_cuts(apart, self.reads, as_long=as_long, least=least)
        if is_even:
            self.even = self._write_even()
        self.copy(iteration.body, needed)
        self.copy(self.facts.added, needed)
        body = self._close(outputs)
        self.speculated.drop_unread()
        number = IndexSource(self.trips.write, self.trips.static, self.whole)
        site = MapSite(
            iteration.node,
            graph,
            self.path,
            [(self.index, number), *self.elements],
            self.shared,
            body,
            results,
            condition=self._condition(),
        )
        return LoopReading(
            site,
            final_values(self.facts, self.trips, self.typings.proven),
            name_dialect(self.facts, self.trips),
            self._assumptions(),
            self.needs.behind,
            self.trips,
            frozenset(self.needs.shaped),
            self.seen,
        )

    def _condition(self) -> Condition | None:
        """Return what must hold for tensors, or slices, to be as long as they are taken to be."""
        if self.even is not None:
            return Condition(self.outer, self.even.holds)
        pairs = dict.fromkeys(p for c in self.cuts.values() for p in c.unproven(self.reads))
        if self.check is not GuardCheck.SIZES or not pairs:
            return None
        return Condition(self.outer, write_equally_long(self.outer, list(pairs)))

    def _write_even(self) -> Even:
        """Record whether all Slices have one length, if that makes sense of all of them."""
        cuts = {id(cut): cut for cut in self.cuts.values()}.values()
        bounds = {bounds_of(self.needs.facts.evaluator, cut.start, cut.end) for cut in cuts}
        if len(cuts) != 1 or None in bounds or not self.needs.unequal <= bounds:
            raise NotAMapError(Code.RAGGED, "its slices have several bounds")
        ((start, end),) = (b for b in bounds if b is not None)
        (cut,) = cuts
        tensor = next(iter(cut.tensors.values()))
        even = write_even(self.outer, start, end, tensor, self.trips.write(self.outer))
        self.typings.set(even.length, lambda _: ValueType(ir.TensorType(_INT64), ()))
        return even

    def _close(self, outputs: list[ir.Value]) -> ir.Graph:
        inputs = [self.index, *(inner for inner, _ in (*self.elements, *self.shared))]
        made = [copy_of(self.values, v) for v in outputs]
        body = self.builder.close("sample", inputs, made, is_typed=False)
        new = (node for node in body if ORIGIN_KEY in node.metadata_props)
        for number, node in enumerate(new):
            node.outputs[0].name = f"{self.path}/value_{number}"
        return body

    def _assumptions(self) -> list[str]:
        found = []
        if self.facts.evaluator.through_floats:
            found.append(
                f"{self.path}: its counters stay below 2^24, where the floats that it compares "
                "them as are exact"
            )
        is_far = self.is_far or self.facts.evaluator.is_far
        if is_far or any(read.is_far for read in self.needs.found):
            found.append(f"{self.path}: no dimension is larger than 10^9")
        return found
