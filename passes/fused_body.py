"""Writes a body with a batch axis, and loops for what of it stays per-sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.walk import Walk, WalkOptions
from passes.builder import Builder, drop_uses
from passes.escape import escape
from passes.expand import plan_output
from passes.graphs import captured_values, subgraphs
from passes.loops import Form, Held, LoopBody, OutputPlan, write_loop
from passes.site import ElementSource, MapSite, TensorSource
from passes.stack import static_count
from passes.typing import Typings

__all__ = ["FusedBody", "walk_body"]


@dataclasses.dataclass
class FusedBody:
    """A body that was walked: recorded, not yet put into a graph.

    Attributes:
        site: The map.
        walk: What became of each node.
        prelude: Stacks the sources and counts the samples.
        batch: Number of samples, int64 ``[1]``.
        sources: Where a loop reads each per-sample element.
    """

    site: MapSite
    walk: Walk
    prelude: Builder
    batch: ir.Value
    sources: Mapping[ir.Value, ElementSource]

    def discard(self) -> None:
        """Take back every use of the model's values."""
        drop_uses(self.prelude.nodes)
        for stage in self.walk.stages:
            drop_uses(stage.nodes)

    def write(self, builder: Builder, typings: Typings) -> list[ir.Value]:
        """Record all of it in order and return the value of each result of the site."""
        builder.nodes.extend(self.prelude.nodes)
        wanted = self._wanted_from_loops(typings)
        held: dict[int, Held] = {}
        for index, stage in enumerate(self.walk.stages):
            builder.nodes.extend(stage.nodes)
            if self.walk.loops[index] or (index == self._first_loop and wanted):
                held |= self._write_loop(builder, typings, index, wanted)
        return [self._result(builder, i, held, typings) for i in range(len(self.site.results))]

    def _wanted_from_loops(self, typings: Typings) -> dict[int, OutputPlan]:
        """Return how each body output that no stage has is collected by its loop."""
        wanted = {}
        for output in self.site.used_outputs():
            value = self.site.body.outputs[output]
            if self.walk.read(value).layout is not Layout.PER_SAMPLE:
                continue
            if value in self.walk.promoted:
                continue
            results = [r for r in self.site.results if r.output == output]
            wanted[output], _ = plan_output(value, results, typings)
        return wanted

    def _write_loop(
        self,
        builder: Builder,
        typings: Typings,
        index: int,
        wanted: Mapping[int, OutputPlan],
    ) -> dict[int, Held]:
        """Record one loop; its promoted values replace their placeholders."""
        nodes = self.walk.loops[index]
        own = {value for node in nodes for value in node.outputs}
        promoted = [value for value in self.walk.promoted if value in own]
        bodies = self.site.body.outputs
        outputs = [o for o in wanted if bodies[o] in own or self._is_source(bodies[o], index)]
        plans = {
            i: OutputPlan(Form.SCAN_OUTPUT, typings.declared.dtype(v), typings.equal_dims(v))
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
            self.walk.promoted[value].replace_all_uses_with(made[i].value)
            self.walk.promoted[value] = made[i].value
        return {o: made[len(promoted) + i] for i, o in enumerate(outputs)}

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
        read = dict.fromkeys(
            value
            for node in nodes
            for value in (
                *node.inputs,
                *(v for _, graph in subgraphs(node) for v in captured_values(graph)),
            )
            if value is not None
        )
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
                stacked = x.value if x.layout is Layout.STACKED else self.walk.promoted[value]
                elements.append((value, TensorSource.of_stacked(stacked)))
        return LoopBody(nodes, outputs, elements, shared)

    def _result(
        self, builder: Builder, index: int, held: Mapping[int, Held], typings: Typings
    ) -> ir.Value:
        result = self.site.results[index]
        value = self.site.body.outputs[result.output]
        rank, dtype = typings.declared.rank(value), typings.declared.dtype(value)
        if result.output in held:
            return escape(builder, result, held[result.output], rank, dtype)
        x = self.walk.read(value)
        if x.layout is Layout.PER_SAMPLE:
            x = dataclasses.replace(x, layout=Layout.STACKED, value=self.walk.promoted[value])
        stacked = x.value if x.is_stacked else self._repeated(builder, x)
        count = static_count(self.site.elements[0][1], typings)
        return escape(builder, result, Held(Form.SCAN_OUTPUT, stacked), rank, dtype, count)

    def _repeated(self, builder: Builder, x: Batched) -> ir.Value:
        shape = builder.op("Concat", [self.batch, builder.op("Shape", [x.value])], {"axis": 0})
        return builder.op("Expand", [x.value, shape])


def walk_body(
    site: MapSite,
    typings: Typings,
    options: WalkOptions,
    prelude: Builder,
    stacked: Mapping[ir.Value, ir.Value],
) -> FusedBody:
    """Walk over the body of a map until nothing ragged must pass from one loop to another.

    Args:
        site: The map.
        typings: Both typings of the model.
        options: The surroundings; ``options.batch`` is recorded in ``prelude``.
        prelude: Has stacked the sources.
        stacked: The inputs of the body that are stacked, and their tensors.
    """
    kept: frozenset[ir.Node] = frozenset()
    while True:
        walk = Walk(typings, options, site.path)
        walk.stage(0)
        for inner, outer in site.shared:
            walk.bind(inner, Layout.SHARED, outer)
        for inner, _ in site.elements:
            if inner in stacked:
                walk.bind(inner, Layout.STACKED, stacked[inner])
            else:
                walk.bind(inner, Layout.PER_SAMPLE)
        walk.run(site.body, kept)
        if walk.demoted <= kept:
            break
        kept |= walk.demoted
        for stage in walk.stages:
            drop_uses(stage.nodes)
    sources = {inner: source for inner, source in site.elements if inner not in stacked}
    return FusedBody(site, walk, prelude, options.batch, sources)
