"""One step of a body, recorded for all samples that have the step.

Of the lengths ``[2, 3]`` only the second sample has a third step: what is scanned there is its
last row, ``2 + 2`` of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.control.collecting import Number
from passes.batching.packed.control.living import LiveIns
from passes.batching.packed.control.rosters import ActiveBatch, Schedule
from passes.decisions import Code, Decline
from passes.graph.builder import Builder

__all__ = ["Recorder", "Step", "StepBody"]


@dataclasses.dataclass(frozen=True)
class StepBody:
    """A body of Loop or Scan.

    Attributes:
        graph: Its nodes.
        states: Those of its inputs that are carried.
        initial: What they are at first.
        bind: Says what the other inputs are in a step.
        condition: Whether its first output says that a sample goes on.
        leading: How many outputs it has before the states.
        mirrored: For each further output, whether the first step yields the last row.
    """

    graph: ir.Graph
    states: Sequence[ir.Value]
    initial: Sequence[Batched]
    bind: Callable[[Context, ActiveBatch, ir.Value], dict[ir.Value, Batched]]
    condition: bool
    leading: int
    mirrored: Sequence[bool]


@dataclasses.dataclass
class Step:
    """One step, recorded.

    Attributes:
        builder: Its nodes.
        number: The number of the step.
        inputs: What the loop carries: for the roster, and the states.
        team: The samples of the step.
        local: Their context.
        outputs: What the body yields.
        layouts: The layout of each state.
    """

    builder: Builder
    number: Number
    inputs: list[ir.Value]
    team: ActiveBatch
    local: Context
    outputs: list[Batched]
    layouts: list[Layout]


@dataclasses.dataclass(frozen=True)
class Recorder:
    """Records a step.

    Attributes:
        ctx: The context of the node.
        body: The body.
        roster: Which samples have a step.
        rows: The positions, after the leading outputs, of those that are no states and are read.
        rounding: Whether rounding can change the states.
    """

    ctx: Context
    body: StepBody
    roster: Schedule
    rows: Sequence[int]
    rounding: bool

    def settled(self) -> Step:
        """Record the step once each state has the layout that the body gives it.

        Raises:
            Decline: Something of it has no batched form.
        """
        layouts = [x.layout for x in self.body.initial]
        while True:
            step = self._record(layouts)
            outs = step.outputs[self.body.leading :]
            grown = [
                was if was is Layout.PACKED or x.is_shared else Layout.STACKED
                for x, was in zip(outs, layouts, strict=False)
            ]
            if grown == layouts:
                return step
            layouts = grown

    def _record(self, layouts: list[Layout]) -> Step:
        inner = Builder(self.ctx.builder.origin)
        number = Number()
        carried = [ir.Value(name="carried", type=value.type) for value in self.roster.carried]
        states = [self._input(i, layout) for i, layout in enumerate(layouts)]
        step = number.record(inner)
        team = self.roster.team(inner, step, carried)
        local = self.ctx.with_batch(inner, team.batch)
        living = LiveIns(self.ctx, local, team, self.body.graph, self._packed_states())
        bindings = living.captured()
        bindings |= self.body.bind(local, team, step)
        for own, x, layout, value in zip(
            self.body.states, self.body.initial, layouts, states, strict=True
        ):
            lengths = living.lengths(x.lengths) if x.lengths is not None else None
            known = self.ctx.type_of(own)
            bindings[own] = Batched(layout, value, known, rounding=self.rounding, lengths=lengths)
        outputs = local.nested(self.body.graph, bindings, inner)
        self._require_rows(outputs, [bindings[own] for own in self.body.states])
        return Step(inner, number, [*carried, *states], team, local, outputs, layouts)

    def _packed_states(self) -> list[Lengths]:
        return [x.lengths for x in self.body.initial if x.lengths is not None]

    def _require_rows(self, outputs: Sequence[Batched], states: Sequence[Batched]) -> None:
        """Decline if something comes out packed that did not go in like that, or reversely."""
        leading = self.body.leading
        for x, was in zip(outputs[leading:], states, strict=False):
            if x.lengths is not was.lengths or x.axis != was.axis:
                raise Decline(Code.RAGGED, "a state changes its length from step to step")
        given = self.body.graph.outputs[leading:]
        for own, new, was in zip(self.body.states, given, states, strict=False):
            if not self._keeps_shape(own, new, was):
                detail = f"'{own.name}' is not proven to keep its shape from step to step"
                raise Decline(Code.UNKNOWN_SHAPE, detail)
        wanted = [*outputs[:leading], *(outputs[leading + i] for i in self.rows)]
        if any(x.is_packed for x in wanted):
            raise Decline(Code.RAGGED, "what its body yields may differ in length")

    def _keeps_shape(self, own: ir.Value, new: ir.Value, was: Batched) -> bool:
        """Whether a state has one shape in all steps: samples that are done at several are joined.

        The lengths of packed samples are compared as such.
        """
        if self.ctx.have_one_shape(own, new):
            return True
        one, other = (self.ctx.type_of(value).dims for value in (own, new))
        if not was.is_packed or one is None or other is None:
            return False
        return one[1:] == other[1:] and None not in one[1:]

    def _input(self, index: int, layout: Layout) -> ir.Value:
        own = self.body.states[index]
        known = self.ctx.type_of(own)
        value = ir.Value(name=own.name, type=self.body.initial[index].type.type)
        _shape(value, known.dims, layout)
        return value


def _shape(value: ir.Value, dims: Sequence[int | str | None] | None, layout: Layout) -> None:
    if dims is not None:
        own = [d if isinstance(d, int) else None for d in dims]
        if layout is Layout.STACKED:
            own = [None, *own]
        elif layout is Layout.PACKED:
            own[0] = None
        value.shape = ir.Shape(own)
