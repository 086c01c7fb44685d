"""Scan over the axis in which packed samples differ in length.

All samples go through their steps together, the longest first: step ``t`` works on those that have
more than ``t`` rows. No row is computed that no sample has, so nothing has to be masked, and the
body never sees padding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.row_by_row import lengths_of
from passes.batching.packed.segments import spread
from passes.builder import BATCHED_KEY, Builder, tensor_value
from passes.decisions import Code, Decline
from passes.graphs import captured_values

__all__ = ["scan_rows"]

_INT64 = ir.DataType.INT64


@dataclasses.dataclass
class _Schedule:
    """Which samples have a step.

    Attributes:
        order: The samples, the longest first, ``[B]``.
        starts: First row of each, in that order, ``[B]``.
        last: Last row of each, in that order, ``[B]``.
        alive: How many samples have each step, ``[L]``.
        steps: Number of steps, ``L``.
        place: For each row, where the results of its step and sample lie, ``[T]``.
        mirrored: The same where the steps run from the last row to the first.
    """

    order: ir.Value
    starts: ir.Value
    last: ir.Value
    alive: ir.Value
    steps: ir.Value
    place: ir.Value
    mirrored: ir.Value


def _schedule(ctx: Context, lengths: Lengths) -> _Schedule:
    top = ctx.builder.node("TopK", [lengths.value, lengths.count], {"axis": 0}, outputs=2)
    order = top.outputs[1]
    starts, ends = (
        ctx.op("Gather", [v, order], {"axis": 0}) for v in (lengths.starts, lengths.ends)
    )
    last = ctx.op("Sub", [ends, ctx.builder.scalar(1)])
    zero, one = ir.tensor(np.zeros(1, np.int64)), ir.tensor(np.ones(1, np.int64))
    none = ctx.op("ConstantOfShape", [lengths.longest], {"value": zero})
    ones = ctx.op("ConstantOfShape", [lengths.total], {"value": one})
    added = {"axis": 0, "reduction": "add"}
    alive = ctx.op("ScatterElements", [none, lengths.positions, ones], added)
    behind = ctx.op("CumSum", [alive, ctx.builder.scalar(0)])
    before = ctx.op("Sub", [behind, alive])
    count = ctx.op("Squeeze", [lengths.count, ctx.ints(0)])
    ranks = ctx.op("Range", [ctx.builder.scalar(0), count, ctx.builder.scalar(1)])
    rank = ctx.op("ScatterElements", [ranks, order, ranks], {"axis": 0})
    of_row = spread(ctx, rank, lengths)
    from_back = ctx.op(
        "Sub",
        [
            ctx.op("Sub", [spread(ctx, lengths.value, lengths), ctx.builder.scalar(1)]),
            lengths.positions,
        ],
    )
    place, mirrored = (
        ctx.op("Add", [ctx.op("Gather", [before, step], {"axis": 0}), of_row])
        for step in (lengths.positions, from_back)
    )
    steps = ctx.op("Squeeze", [lengths.longest, ctx.ints(0)])
    return _Schedule(order, starts, last, alive, steps, place, mirrored)


def scan_rows(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Run the steps of all samples together in a Loop; scan outputs are packed again.

    A final state is what a sample's last step left, or its initial state if it has no rows.

    Raises:
        Decline: What is scanned, or a state, does not go row by row.
    """
    number = node.attributes["num_scan_inputs"].as_int()
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    initial, scanned = given[: len(given) - number], given[len(given) - number :]
    if not all(x.is_packed for x in scanned) or any(x.is_packed for x in initial):
        raise Decline(Code.RAGGED, "it scans samples of different length beside others")
    if any(ctx.attribute(node, "scan_input_axes") or ()) or any(
        ctx.attribute(node, "scan_output_axes") or ()
    ):
        raise Decline(Code.RAGGED, "it scans along another axis than the first")
    lengths = lengths_of(scanned)
    graph = node.attributes["body"].as_graph()
    captured = [(v, ctx.read(v)) for v in captured_values(graph)]
    if any(x.is_packed for _, x in captured):
        raise Decline(Code.RAGGED, "its body reads samples of different length from outside")
    empty = [_none(ctx, value) for value in graph.outputs]
    return _Writer(ctx, node, graph, lengths, initial, scanned, dict(captured), empty).write()


def _none(ctx: Context, value: ir.Value) -> np.ndarray:
    """Return no rows of a body's output."""
    known, declared = ctx.type_of(value).type, ctx.declared_dims(value)
    if known is None or declared is None:
        raise Decline(Code.UNKNOWN_RANK, "nothing tells the shape of what its body yields")
    dims = [d for d in declared if isinstance(d, int)]
    if len(dims) < len(declared) or known.dtype == ir.DataType.STRING:
        raise Decline(Code.UNKNOWN_SHAPE, "a dimension of what its body yields is not known")
    return np.empty((0, *dims), known.dtype.numpy())


@dataclasses.dataclass
class _Writer:
    ctx: Context
    node: ir.Node
    graph: ir.Graph
    lengths: Lengths
    initial: Sequence[Batched]
    scanned: Sequence[Batched]
    captured: dict[ir.Value, Batched]
    empty: Sequence[np.ndarray]

    def write(self) -> Sequence[Output]:
        ctx, schedule = self.ctx, _schedule(self.ctx, self.lengths)
        begun = [
            ctx.op("Gather", [ctx.expanded(x), schedule.order], {"axis": 0}) for x in self.initial
        ]
        sorted_captures = {
            value: ctx.op("Gather", [x.value, schedule.order], {"axis": 0})
            for value, x in self.captured.items()
            if x.is_stacked
        }
        step, condition = (
            tensor_value("step", _INT64, []),
            tensor_value("go", ir.DataType.BOOL, []),
        )
        states = [
            tensor_value("state", x.dtype, [None, *a.shape[1:]])
            for x, a in zip(self.initial, self.empty, strict=False)
        ]
        sequences = [
            ir.Value(
                name="rows", type=ir.SequenceType(ir.TensorType(ir.DataType.from_numpy(a.dtype)))
            )
            for a in self.empty
        ]

        def write_step(inner: Builder) -> Sequence[ir.Value]:
            values = self._step(inner, schedule, step, states, sorted_captures)
            collected = [
                inner.op("SequenceInsert", [sequence, value])
                for sequence, value in zip(sequences, values, strict=True)
            ]
            for sequence, value in zip(sequences, collected, strict=True):
                value.type = sequence.type
            go_on = inner.op("Identity", [condition])
            go_on.type, go_on.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
            return [go_on, *values[: len(states)], *collected]

        body = ctx.builder.subgraph("steps", [step, condition, *states, *sequences], write_step)
        inputs = [
            schedule.steps,
            ctx.builder.flag(True),
            *begun,
            *(ctx.op("SequenceConstruct", [ctx.builder.constant(a)]) for a in self.empty),
        ]
        loop = ctx.builder.node(
            "Loop", inputs, {"body": body}, outputs=len(states) + len(self.empty)
        )
        loop.metadata_props[BATCHED_KEY] = ctx.builder.origin
        return self._results(schedule, loop.outputs[len(states) :])

    def _step(
        self,
        inner: Builder,
        schedule: _Schedule,
        step: ir.Value,
        states: Sequence[ir.Value],
        captures: dict[ir.Value, ir.Value],
    ) -> list[ir.Value]:
        """Record one step of the samples that have it, and return what the body yields."""
        index = inner.op("Unsqueeze", [step, inner.ints(0)])
        alive = inner.op("Gather", [schedule.alive, index], {"axis": 0})

        def living(value: ir.Value) -> ir.Value:
            return inner.op("Slice", [value, inner.ints(0), alive, inner.ints(0)])

        forwards = self.ctx.attribute(self.node, "scan_input_directions") or [0] * len(
            self.scanned
        )
        rows = {
            0: inner.op("Add", [living(schedule.starts), step]),
            1: inner.op("Sub", [living(schedule.last), step]),
        }
        local = self.ctx.with_batch(inner, alive)
        bindings = {value: self._stacked(value, living(x)) for value, x in captures.items()}
        read = [
            *(living(x) for x in states),
            *(
                inner.op("Gather", [x.value, rows[way]], {"axis": 0})
                for x, way in zip(self.scanned, forwards, strict=True)
            ),
        ]
        for own, rows_read in zip(self.graph.inputs, read, strict=True):
            bindings[own] = self._stacked(own, rows_read)
        nested = Builder(inner.origin)
        outputs = local.nested(self.graph, bindings, nested)
        inner.nodes.extend(nested.nodes)
        values = []
        for x, none in zip(outputs, self.empty, strict=True):
            value = inner.op("Identity", [local.expanded(x)])
            value.type = ir.TensorType(ir.DataType.from_numpy(none.dtype))
            value.shape = ir.Shape([None, *none.shape[1:]])
            values.append(value)
        return values

    def _stacked(self, value: ir.Value, rows: ir.Value) -> Batched:
        return Batched(Layout.STACKED, rows, self.ctx.type_of(value))

    def _results(self, schedule: _Schedule, collected: Sequence[ir.Value]) -> list[Output]:
        ctx = self.ctx
        ways = ctx.attribute(self.node, "scan_output_directions") or []
        ways = [0] * len(self.initial) + (list(ways) or [0] * (len(collected) - len(self.initial)))
        outputs = []
        for i, (sequence, way) in enumerate(zip(collected, ways, strict=True)):
            steps = ctx.op("ConcatFromSequence", [sequence], {"axis": 0})
            place = schedule.mirrored if way else schedule.place
            rows = ctx.op("Gather", [steps, place], {"axis": 0})
            if i < len(self.initial):
                outputs.append(ctx.stacked(self._final(rows, self.initial[i])))
            else:
                outputs.append(ctx.packed(rows, self.lengths))
        return outputs

    def _final(self, rows: ir.Value, initial: Batched) -> ir.Value:
        """Return the state behind each sample's last row, or its initial one: ``[B, *s]``."""
        ctx, lengths = self.ctx, self.lengths
        begun = ctx.expanded(initial)
        both = ctx.op("Concat", [begun, rows], {"axis": 0})
        count = ctx.op("Squeeze", [lengths.count, ctx.ints(0)])
        numbers = ctx.op("Range", [ctx.builder.scalar(0), count, ctx.builder.scalar(1)])
        last = ctx.op("Add", [ctx.op("Sub", [lengths.ends, ctx.builder.scalar(1)]), lengths.count])
        has_rows = ctx.op("Greater", [lengths.value, ctx.builder.scalar(0)])
        where = ctx.op("Where", [has_rows, last, numbers])
        return ctx.op("Gather", [both, where], {"axis": 0})
