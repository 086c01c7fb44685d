"""Writes a body with a batch axis, and loops for what of it stays per-sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.walk import Walk, WalkOptions
from passes.builder import Builder, drop_uses
from passes.decisions import Code, Reason
from passes.fusing.pack import Packed
from passes.fusing.stack import differ, static_count
from passes.graphs import captured_values, subgraphs
from passes.loops.escape import escape
from passes.loops.loop import Form, Held, LoopBody, OutputPlan, write_loop
from passes.loops.plan import plan_output
from passes.site import ElementSource, MapSite, Result, TensorSource
from passes.typing import Typings

__all__ = ["FusedBody", "walk_body"]


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
        scratch: The nodes of the body, if it stands in no model.
    """

    site: MapSite
    walk: Walk
    prelude: Builder
    batch: ir.Value
    sources: Mapping[ir.Value, ElementSource]
    asked: dict[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    scratch: Sequence[ir.Node] = ()

    def discard(self) -> None:
        """Take back every use of the model's values."""
        drop_uses([*self.prelude.nodes, *self.scratch])
        self.walk.discard()

    def needs_loop(self, typings: Typings) -> bool:
        """Whether a node or a result stays per-sample."""
        return any(self.walk.loops) or bool(self._wanted_from_loops(typings))

    def reads_open_results(self, typings: Typings) -> bool:
        """Whether a batched node reads what a loop collects, of which a dimension is not known.

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
        builder.nodes.extend(self.prelude.nodes)
        wanted = self._wanted_from_loops(typings)
        held: dict[int, Held] = {}
        for index, stage in enumerate(self.walk.stages):
            builder.nodes.extend(stage.nodes)
            if self.walk.loops[index] or (index == self._first_loop and wanted):
                held |= self._write_loop(builder, typings, index, wanted)
                builder.nodes.extend(self.walk.promotions.behind(index))
        count = len(self.site.results)
        results = [self._result(builder, i, held, typings) for i in range(count)]
        drop_uses(self.scratch)
        return results

    def _wanted_from_loops(self, typings: Typings) -> dict[int, OutputPlan]:
        """Return how each body output that no stage has is collected by its loop."""
        wanted = {}
        for output in self.site.used_outputs():
            value = self.site.body.outputs[output]
            x = self.walk.read(value)
            if x.layout is not Layout.PER_SAMPLE:
                continue
            results = [r for r in self.site.results if r.output == output]
            x = self._collected(value, x)
            if x.is_stacked or (x.is_packed and all(_is_in_place(r, x) for r in results)):
                continue
            wanted[output], _ = plan_output(value, results, typings)
        return wanted

    def _collected(self, value: ir.Value, x: Batched) -> Batched:
        """Return a value as a loop collects it, or per-sample as it is."""
        promotions = self.walk.promotions
        return promotions.promote(x) if value in promotions.values else x

    def taken_as_declared(self, typings: Typings) -> list[ir.Value]:
        """Return the values that loops collect as tensors of a shape that is only declared."""
        outputs = self._wanted_from_loops(typings).items()
        tensors = [self.site.body.outputs[o] for o, p in outputs if p.form is not Form.INSERTION]
        collected = dict.fromkeys([*self.walk.promotions.values, *tensors])
        return [value for value in collected if typings.takes_declared(value)]

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
        promoted = [value for value in self.walk.promotions.values if value in own]
        bodies = self.site.body.outputs
        outputs = [o for o in wanted if bodies[o] in own or self._is_source(bodies[o], index)]
        plans = {
            i: OutputPlan(
                self._form(v),
                typings.declared.dtype(v),
                typings.equal_dims(v),
                self.walk.promotions.axis(v),
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
            self.walk.settle(value, made[i].value, made[i].lengths)
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
                elements.append((value, self._slices(value, x)))
        return LoopBody(nodes, outputs, elements, shared)

    def _slices(self, value: ir.Value, x: Batched) -> TensorSource:
        """Return where a loop reads the samples of a value that is stacked or packed."""
        x = self._collected(value, x)
        if x.lengths is None:
            return TensorSource.of_stacked(x.value)
        return TensorSource(x.value, x.axis, keepdims=True, split=x.lengths.value)

    def _result(
        self, builder: Builder, index: int, held: Mapping[int, Held], typings: Typings
    ) -> ir.Value:
        result = self.site.results[index]
        value = self.site.body.outputs[result.output]
        rank, dtype = typings.declared.rank(value), typings.declared.dtype(value)
        if result.output in held:
            return escape(builder, result, held[result.output], rank, dtype)
        count = static_count(self.site.elements[0][1], typings)
        x = self._collected(value, self.walk.read(value))
        if x.lengths is not None:
            packed = Held(Form.BLOCKS, x.value, x.lengths.value, x.axis)
            return escape(builder, result, packed, rank, dtype, count)
        stacked = x.value if x.is_stacked else self._repeated(builder, x)
        return escape(builder, result, Held(Form.SCAN_OUTPUT, stacked), rank, dtype, count)

    def _repeated(self, builder: Builder, x: Batched) -> ir.Value:
        shape = builder.op("Concat", [self.batch, builder.op("Shape", [x.value])], {"axis": 0})
        return builder.op("Expand", [x.value, shape])

    def work(self, typings: Typings) -> tuple[int, int]:
        """Return how many nodes run for each sample, and how many values are not just stacked."""
        promotions = self.walk.promotions
        wanted = self._wanted_from_loops(typings).values()
        collected = sum(map(promotions.is_packable, promotions.values))
        collected += sum(plan.form is not Form.SCAN_OUTPUT for plan in wanted)
        return sum(map(len, self.walk.loops)), collected


def walk_body(
    site: MapSite,
    typings: Typings,
    options: WalkOptions,
    prelude: Builder,
    stacked: Mapping[ir.Value, ir.Value],
    packed: Mapping[ir.Value, Packed] | None = None,
) -> FusedBody:
    """Walk over the body of a map until nothing ragged must pass from one loop to another.

    Args:
        site: The map.
        typings: Both typings of the model.
        options: The surroundings; ``options.batch`` is recorded in ``prelude``.
        prelude: Has stacked the sources.
        stacked: The inputs of the body that are stacked, and their tensors.
        packed: Those that are packed.
    """
    together = dict(packed or {})
    kept: dict[ir.Node, Reason | None] = {}
    while True:
        walk = Walk(typings, options, site.path)
        walk.stage(0)
        for inner, outer in site.shared:
            walk.bind(inner, Layout.SHARED, outer)
        for inner, source in site.elements:
            if inner in stacked:
                walk.bind(inner, Layout.STACKED, stacked[inner])
            elif inner in together:
                one = together[inner]
                walk.bind(inner, Layout.PACKED, one.value, one.lengths, one.axis)
            else:
                walk.bind_apart(inner, differs=differ(source, typings))
        walk.run(site.body, kept)
        torn = _read_apart(site, walk)
        if walk.demotions.nodes.keys() <= kept.keys() and not torn:
            break
        makers = [node for v in torn if (node := v.producer()) is not None]
        kept = walk.demotions.nodes | {n: _why_apart(n, options) for n in makers} | kept
        for value in torn:
            together.pop(value, None)
        walk.discard()
    bound = {*stacked, *together}
    sources = {inner: source for inner, source in site.elements if inner not in bound}
    return FusedBody(site, walk, prelude, options.batch, sources)


def _is_in_place(result: Result, x: Batched) -> bool:
    """Whether a result is made of packed samples without taking them apart."""
    if result.kind == "concatenated":
        dims = x.type.dims
        return result.axis == x.axis or (dims is not None and result.axis == x.axis - len(dims))
    return result.kind == "sequence"


def _read_apart(site: MapSite, walk: Walk) -> list[ir.Value]:
    """Return the packed outputs of a body of which a result is made along another axis."""
    outputs = ((r, site.body.outputs[r.output]) for r in site.results)
    torn = (v for r, v in outputs if (x := walk.read(v)).is_packed and not _is_in_place(r, x))
    return list(dict.fromkeys(torn))


def _why_apart(node: ir.Node, options: WalkOptions) -> Reason:
    detail = "its samples differ in length, and are stacked or joined along another axis"
    return Reason(Code.RAGGED, options.paths.get(node) or node.op_type, node.op_type, detail)
