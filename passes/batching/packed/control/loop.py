"""Loop whose trip count or condition differs from sample to sample.

Trip counts ``[1, 3, 2]`` are six iterations, which run in three steps of 3, 2 and 1 samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.control.living import Apart
from passes.batching.packed.control.longest_first import SortedByLength
from passes.batching.packed.control.remaining import ActiveSet
from passes.batching.packed.control.rosters import ActiveBatch, Schedule
from passes.batching.packed.control.step import StepBody
from passes.batching.packed.control.stepwise import run_steps
from passes.decisions import Code, Decline
from passes.graph.graphs import captured_values, constant_value, is_default_domain
from passes.graph.made import only_number, optional_operand, skip_identities
from passes.numbers.last_iteration import ALONE

__all__ = ["loop_of_samples"]


def loop_of_samples(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output | None]:
    """Run the steps of all samples together, each of them for those that have it.

    1. Trip counts alone: the longest sample first.
    2. A condition: who is done leaves.

    Raises:
        Decline: The steps have no batched form.
    """
    if ctx.opset < 16:
        raise Decline(Code.OPSET, "a loop of each sample needs opset 16")
    graph = node.attributes["body"].as_graph()
    count, condition = (ctx.optional(operands, i) for i in (0, 1))
    initial = [ctx.operand(operands, i) for i in range(2, len(operands))]

    def bind(local: Context, team: ActiveBatch, step: ir.Value) -> dict[ir.Value, Batched]:
        values = (step, local.builder.flag(True))
        return {
            own: Batched(Layout.SHARED, value, ctx.type_of(own))
            for own, value in zip(graph.inputs, values, strict=False)
        }

    goes_on = _always_goes_on(graph)
    mirrored = [False] * (len(graph.outputs) - 1 - len(initial))
    body = StepBody(graph, graph.inputs[2:], initial, bind, not goes_on, 1, mirrored)
    return run_steps(ctx, node, body, _roster(ctx, node, count, condition, goes_on))


def _roster(
    ctx: Context, node: ir.Node, count: Operand, condition: Operand, goes_on: bool
) -> Schedule:
    """Return who takes part in which step.

    Raises:
        Decline: There is no end to it, or runtimes disagree about it.
    """
    limit = None if count is None else _one_each(ctx, count)
    known = None if condition is None else ctx.constant(condition)
    begins = None
    if condition is not None and not (known is not None and known.all()):
        begins = _one_each(ctx, condition)
    if goes_on and limit is not None:
        lengths = None if begins is not None else _lengths_counted(ctx, node)
        if lengths is None or isinstance(lengths, Apart):
            none = ctx.builder.scalar(0)
            limit = limit if begins is None else ctx.op("Where", [begins, limit, none])
            lengths = Lengths(ctx.builder, ctx.op("Max", [limit, none]))
        return SortedByLength(ctx, lengths)
    if goes_on or condition is None:
        raise Decline(Code.CONTROL_FLOW, "nothing given to it says when it ends")
    flags = [] if begins is None else [begins]
    if limit is not None:
        flags.append(ctx.op("Greater", [limit, ctx.builder.scalar(0)]))
    if not flags:
        flags.append(ctx.op("Expand", [ctx.builder.flag(True), ctx.batch]))
    return ActiveSet(ctx, flags[0] if len(flags) == 1 else ctx.op("And", flags), limit)


def _one_each(ctx: Context, x: Batched) -> ir.Value:
    """Return one number of each sample: ``[B]``."""
    if x.is_packed or x.dims not in ((), (1,)):
        raise Decline(Code.CONTROL_FLOW, "its trip count or condition is not one value")
    if x.is_shared:
        return ctx.op("Expand", [x.value, ctx.batch])
    return ctx.squeeze(x.value, [1]) if x.rank else x.value


def _always_goes_on(graph: ir.Graph) -> bool:
    """Whether the condition that a body yields is the one it was given, or true."""
    value = skip_identities(graph.outputs[0])
    known = constant_value(value)
    return value is graph.inputs[1] or (known is not None and bool(known.all()))


def _lengths_counted(ctx: Context, node: ir.Node) -> Lengths | None:
    """Return the lengths of packed samples if the trip count of a Loop is the length of each."""
    value = node.inputs[0]
    reads_first = False
    while value is not None and (maker := value.producer()) is not None:
        if not is_default_domain(maker):
            return None
        if maker.op_type in ("Shape", "Size"):
            data = maker.inputs[0]
            return None if data is None else _lengths_of(ctx, node, maker, data, reads_first)
        if maker.op_type in ("Gather", "Slice"):
            if only_number(optional_operand(maker, 1)) != 0:
                return None
            reads_first = True
        elif maker.op_type not in ALONE:
            return None
        value = maker.inputs[0]
    return None


def _lengths_of(
    ctx: Context, node: ir.Node, maker: ir.Node, data: ir.Value, reads_first: bool
) -> Lengths | None:
    dims = ctx.type_of(data).dims
    if not dims or maker.attributes.get_int("start", 0) != 0:
        return None
    ends_first = maker.op_type == "Shape" and maker.attributes.get_int("end", 0) == 1
    if not (reads_first or ends_first or len(dims) == 1):
        return None
    named = ctx.lengths_named(dims[0])
    if named is None and data in captured_values(node.attributes["body"].as_graph()):
        x = ctx.read(data)
        return x.lengths if x.axis == 0 else None
    return named
