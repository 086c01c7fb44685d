"""Writes a body with a batch axis, and loops for its nodes that stay per-sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.form_notes import MANY_ROWS
from passes.batching.layouts import Batched, Layout
from passes.batching.walk import BatchInterpreter
from passes.graph.builder import Builder
from passes.graph.graphs import reads_of
from passes.loops.batched_results import (
    is_in_place,
    prepare_result,
    write_batched,
    write_result,
)
from passes.loops.forms import Form, LoopBody, OutputPlan, slices_of
from passes.loops.loop import write_loop
from passes.loops.plan import plan_output
from passes.maps.element_source import ElementSource
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["FusedBody"]


@dataclasses.dataclass(eq=False)
class FusedBody:
    """A body that was walked: recorded, not yet put into a graph.

    Attributes:
        site: The map.
        walk: What became of each node.
        prelude: Stacks the sources and counts the samples.
        batch: Number of samples, int64 ``[1]``.
        sources: Where a loop reads each per-sample element.
        asked: Sequences that are packed, and a placeholder for the lengths of their elements.
    """

    site: MapSite
    walk: BatchInterpreter
    prelude: Builder
    batch: ir.Value
    sources: Mapping[ir.Value, ElementSource]
    asked: dict[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)

    @property
    def asks_rows(self) -> bool:
        """Whether a loop runs where samples have many rows, so that few are asked first."""
        return MANY_ROWS in self.walk.limits.values()

    def needs_loop(self, typings: Typings) -> bool:
        """Whether a node or a result stays per-sample."""
        return any(self.walk.loops) or bool(self.wanted_from_loops(typings))

    def reads_open_results(self, typings: Typings) -> bool:
        """Whether a batched node reads a value of open shape that a loop collects.

        A loop of no steps yields 0 for that dimension, which fits to no other operand.
        """
        if not any(stage.nodes for stage in self.walk.stages[1:]):
            return False
        promotions = self.walk.promotions
        for value in promotions.values:
            dims = typings.equal_dims(value)
            packed = promotions.axis(value) if promotions.is_packable(value) else None
            if dims is None or not all(
                isinstance(n, int) for axis, n in enumerate(dims) if axis != packed
            ):
                return True
        return False

    def write(self, builder: Builder, typings: Typings) -> list[ir.Value]:
        """Record all of it in order and return the value of each result of the site."""
        self._prepare_results()
        builder.nodes.extend(self.prelude.nodes)
        wanted = self.wanted_from_loops(typings)
        held: dict[int, Batched] = {}
        for index, stage in enumerate(self.walk.stages):
            builder.nodes.extend(stage.nodes)
            if self.walk.loops[index] or (index == self._first_loop and wanted):
                held |= self._write_loop(builder, typings, index, wanted)
                builder.nodes.extend(self.walk.promotions.behind(index))
        count = len(self.site.results)
        results = [self._result(builder, i, held, typings) for i in range(count)]
        if held or any(self.walk.loops):
            self.walk.promotions.settle_readers()  # tables of sizes hold placeholders
        return results

    def _prepare_results(self) -> None:
        for result in self.site.results:
            x = self.walk.read(self.site.body.outputs[result.output])
            prepare_result(result, x, self.walk.options)

    def wanted_from_loops(self, typings: Typings) -> dict[int, OutputPlan]:
        """Return how its loop collects each body output that no stage computes."""
        wanted = {}
        for output in self.site.used_outputs():
            value = self.site.body.outputs[output]
            x = self.walk.read(value)
            if x.layout is not Layout.PER_SAMPLE:
                continue
            results = [r for r in self.site.results if r.output == output]
            x = self._collected(value, x)
            in_place = (r.kind != "stacked" and is_in_place(r, x) for r in results)
            if x.is_stacked or (x.is_packed and all(in_place)):
                continue
            wanted[output], _ = plan_output(value, results, typings)
        return wanted

    def _collected(self, value: ir.Value, x: Batched) -> Batched:
        """Return a value as a loop collects it, or per-sample as it is."""
        promotions = self.walk.promotions
        return promotions.promote(x) if value in promotions.values else x

    def taken_as_declared(self, typings: Typings) -> list[ir.Value]:
        """Return the values that loops collect as tensors of a shape that is only declared."""
        outputs = self.wanted_from_loops(typings).items()
        tensors = [self.site.body.outputs[o] for o, p in outputs if p.form is not Form.INSERTION]
        collected = dict.fromkeys([*self.walk.promotions.values, *tensors])
        return [value for value in collected if typings.takes_declared(value)]

    def _write_loop(
        self,
        builder: Builder,
        typings: Typings,
        index: int,
        wanted: Mapping[int, OutputPlan],
    ) -> dict[int, Batched]:
        """Record one loop; its promoted values replace their placeholders."""
        nodes = self.walk.loops[index]
        own = {value for node in nodes for value in node.outputs}
        promoted = [value for value in self.walk.promotions.values if value in own]
        bodies = self.site.body.outputs
        outputs = [o for o in wanted if bodies[o] in own or self._is_source(bodies[o], index)]
        plans = {
            i: OutputPlan(
                self._form(v),
                typings.declared.dtype(v),
                typings.equal_dims(v),
                self.walk.promotions.axis(v),
                typings.proven_dims(v),
                is_tensor=True,
            )
            for i, v in enumerate(promoted)
        }
        plans |= {len(promoted) + i: wanted[o] for i, o in enumerate(outputs)}
        values = [*promoted, *(bodies[o] for o in outputs)]
        if not values:
            return {}
        body = self._loop_body(nodes, own, values)
        count = builder.op("Squeeze", [self.batch, builder.ints(0)])
        made = write_loop(builder, body, typings, plans, count)
        for i, value in enumerate(promoted):
            self.walk.settle(value, made[i])
        return {o: made[len(promoted) + i] for i, o in enumerate(outputs)}

    def _form(self, value: ir.Value) -> Form:
        """Return how a loop collects a value that is read as stacked or packed."""
        return Form.BLOCKS if self.walk.promotions.is_packable(value) else Form.SCAN_OUTPUT

    @property
    def _first_loop(self) -> int:
        return next((i for i, nodes in enumerate(self.walk.loops) if nodes), 0)

    def _is_source(self, value: ir.Value, index: int) -> bool:
        """Whether an output of the body is an element itself, collected by the first loop."""
        return value in self.sources and index == self._first_loop

    def _loop_body(
        self, nodes: Sequence[ir.Node], own: set[ir.Value], outputs: Sequence[ir.Value]
    ) -> LoopBody:
        elements: list[tuple[ir.Value, ElementSource]] = []
        shared: dict[ir.Value, ir.Value] = {}
        read = dict.fromkeys(value for node in nodes for value in reads_of(node))
        read |= dict.fromkeys(outputs)
        for value in read:
            if value in own:
                continue
            if value in self.sources:
                elements.append((value, self.sources[value]))
                continue
            x = self.walk.read(value)
            if x.layout is Layout.SHARED:
                shared[value] = x.value
            else:
                elements.append((value, slices_of(self._collected(value, x))))
        return LoopBody(nodes, outputs, elements, shared)

    def _result(
        self, builder: Builder, index: int, held: Mapping[int, Batched], typings: Typings
    ) -> ir.Value:
        result = self.site.results[index]
        value = self.site.body.outputs[result.output]
        if result.output in held:
            return write_result(builder, result, held[result.output])
        count = self.site.elements[0][1].number(typings.proven)
        x = self._collected(value, self.walk.read(value))
        return write_batched(builder, result, x, self.walk.options, value, typings, count)

    @property
    def is_packed(self) -> bool:
        """Whether an element of the body is read as packed."""
        return any(self.walk.read(inner).is_packed for inner, _ in self.site.elements)

    @property
    def nodes_in_loops(self) -> int:
        """How many nodes run for each sample."""
        return sum(map(len, self.walk.loops))
