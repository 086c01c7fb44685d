"""A body that runs step by step for all samples that have the step, in one Loop.

Numbers of steps ``[1, 3]``: three iterations, for 2, 1 and 1 samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.families.carried_rounding import carries_rounding
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.control.collecting import Collecting, collect
from passes.batching.packed.control.rosters import Schedule
from passes.batching.packed.control.some_samples import Subset, inverse_of
from passes.batching.packed.control.step import Recorder, StepBody
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import is_used

__all__ = ["run_steps"]


def run_steps(
    ctx: Context, node: ir.Node, body: StepBody, roster: Schedule
) -> Sequence[Output | None]:
    """Write the loop.

    Args:
        ctx: The context of the node.
        node: The Loop or Scan; an output that nothing reads has no result.
        body: Its body.
        roster: Which samples have a step.

    Returns:
        The last states of the samples, as they were at first for one without steps, and what
        the steps yield, packed.

    Raises:
        Decline: Something of it has no batched form.
    """
    return _StepWriter(ctx, node, body, roster).write()


class _StepWriter:
    def __init__(self, ctx: Context, node: ir.Node, body: StepBody, roster: Schedule) -> None:
        self.ctx, self.node, self.body, self.roster = ctx, node, body, roster
        for x in body.initial:
            if not isinstance(x.type.type, ir.TensorType) or x.axis:
                raise Decline(Code.CONTROL_FLOW, "each sample carries a sequence of its own")
        used = [is_used(out) for out in node.outputs]
        count = len(body.initial)
        self.states = [i for i in range(count) if used[i]]
        self.rows = [i for i in range(count, len(used)) if used[i]]
        self.empty = [_none(ctx, body.graph.outputs[body.leading + i]) for i in self.rows]
        rounding = carries_rounding(ctx, node, body.initial)
        self.step = Recorder(ctx, body, roster, self.rows, rounding).settled()
        self.layouts = self.step.layouts

    def write(self) -> Sequence[Output | None]:
        """Record the loop and return its results."""
        ctx, roster, step = self.ctx, self.roster, self.step
        begun = [self._at_first(i, roster.first[0]) for i in range(len(self.layouts))]
        collected = [
            *roster.noted,
            *(self._at_first(i, roster.first[1], expand=True) for i in self.states),
            *(ctx.builder.constant(a) for a in self.empty),
        ]
        dtypes = [ir.DataType.INT64] * len(roster.noted) + self._collected_types()
        loop = Collecting(roster.trips, step.number, step.inputs, self._close, roster.goes_on)
        carried = [*roster.carried, *begun]
        return self._results(collect(ctx.builder, loop, carried, collected, dtypes))

    def _at_first(self, index: int, numbers: ir.Value, *, expand: bool = False) -> ir.Value:
        """Return the initial state of some samples."""
        ctx, x, layout = self.ctx, self.body.initial[index], self.layouts[index]
        if not x.is_shared:
            return Subset(ctx, numbers).of(x).value
        if layout is Layout.SHARED and not expand:
            return x.value
        return _repeated(ctx.builder, x.value, ctx.op("Shape", [numbers]))

    def _collected_types(self) -> list[ir.DataType]:
        states = [self.body.initial[i].dtype for i in self.states]
        return [
            *(dtype for dtype in states if dtype is not None),
            *(ir.DataType.from_numpy(a.dtype) for a in self.empty),
        ]

    def _close(self, inner: Builder) -> tuple[list[ir.Value], list[ir.Value]]:
        """Record what a step hands on, and what is collected of it."""
        step, leading = self.step, self.body.leading
        builder, local = step.builder, step.local
        step.team.part(self._go_on(local, step.outputs[0]) if self.body.condition else None)
        kept, done = [], []
        for i, layout in enumerate(self.layouts):
            x = step.outputs[leading + i]
            if layout is Layout.SHARED:
                parts = (x.value, _repeated(builder, x.value, step.team.done))
            else:
                parts = step.team.split(dataclasses.replace(x, value=_whole(local, x)))
            for part in parts:
                part.type = part.type or x.type.type
            kept.append(parts[0])
            done += [parts[1]] if i in self.states else []
        yielded = [local.expanded(step.outputs[leading + i]) for i in self.rows]
        carried = step.team.carried()
        for value, own in zip(carried, step.inputs, strict=False):
            value.type = own.type
        notes = step.team.notes()
        inner.nodes.extend(builder.nodes)
        return [*carried, *kept], [*notes, *done, *yielded]

    def _go_on(self, local: Context, x: Batched) -> ir.Value:
        value = local.expanded(x)
        return local.squeeze(value, [1]) if x.rank else value

    def _results(self, values: Sequence[ir.Value]) -> list[Output | None]:
        ctx, body, roster = self.ctx, self.body, self.roster
        count, noted = len(self.layouts), len(roster.noted)
        place = roster.finish(values[:noted])
        back = Subset(ctx, place)
        collected = iter(values[noted:])
        outputs: list[Output | None] = [None] * len(self.node.outputs)
        for i in self.states:
            x = dataclasses.replace(
                body.initial[i],
                layout=Layout.PACKED if body.initial[i].is_packed else Layout.STACKED,
                value=next(collected),
            )
            if x.lengths is not None:
                sizes = ctx.op("Gather", [x.lengths.value, inverse_of(ctx, place)], {"axis": 0})
                done = Lengths(ctx.builder, sizes)
                back.know(done, x.lengths)
                outputs[i] = ctx.packed(
                    back.of(dataclasses.replace(x, lengths=done)).value, x.lengths
                )
            else:
                outputs[i] = ctx.stacked(back.of(x).value)
        found: dict[bool, tuple[ir.Value, Lengths]] = {}
        for i in self.rows:
            mirrored = body.mirrored[i - count]
            if mirrored not in found:
                found[mirrored] = roster.rows(mirrored)
            where, lengths = found[mirrored]
            rows = ctx.op("Gather", [next(collected), where], {"axis": 0})
            outputs[i] = ctx.packed(rows, lengths)
        return outputs


def _whole(local: Context, x: Batched) -> ir.Value:
    return x.value if x.is_packed else local.expanded(x)


def _repeated(builder: Builder, value: ir.Value, count: ir.Value) -> ir.Value:
    shape = builder.op("Concat", [count, builder.op("Shape", [value])], {"axis": 0})
    return builder.op("Expand", [value, shape])


def _none(ctx: Context, value: ir.Value) -> np.ndarray:
    """Return no rows of a body's output."""
    known, declared = ctx.type_of(value).type, ctx.declared_dims(value)
    if known is None or declared is None:
        raise Decline(Code.UNKNOWN_RANK, "nothing tells the shape of what its body yields")
    dims = [d for d in declared if isinstance(d, int)]
    if len(dims) < len(declared) or known.dtype == ir.DataType.STRING:
        raise Decline(Code.UNKNOWN_SHAPE, "a dimension of what its body yields is not known")
    return np.empty((0, *dims), known.dtype.numpy())
