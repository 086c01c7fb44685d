"""Loop and Scan inside of a body."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.families.batched_bodies import (
    SHARED,
    STACKED,
    batch_body,
    close_body,
    form_of,
)
from passes.batching.families.carried_rounding import carries_rounding
from passes.batching.families.merging import with_spare_row, with_spare_sample
from passes.batching.layouts import Batched, Layout
from passes.batching.packed.control.loop import loop_of_samples
from passes.decisions import Code, Decline
from passes.graph.builder import BATCHED_KEY
from passes.graph.graphs import captured_values, is_operator, is_used
from passes.typing import ValueType

__all__ = ["loop", "scan"]


def _require_ranks(
    ctx: Context, inner: Sequence[ir.Value], initial: Sequence[Batched], outs: Sequence[Batched]
) -> None:
    """Check that each state has the rank that its body declares, at first and behind every step.

    Raises:
        Decline: It has another.
    """
    for value, *found in zip(inner, initial, outs, strict=False):
        dims = ctx.type_of(value).dims
        ranks = [len(x.type.dims) for x in found if x.type.dims is not None]
        if dims is not None and any(rank != len(dims) for rank in ranks):
            detail = f"'{value.name}' does not keep the rank that its body declares"
            raise Decline(Code.UNKNOWN_SHAPE, detail)


def _expanded_state(ctx: Context, x: Batched) -> ir.Value:
    """Return an initial state as stacked; an empty sequence is one already."""
    if _is_empty_sequence(x):
        return x.value
    if isinstance(x.type.type, ir.SequenceType) and x.is_shared:
        raise Decline(Code.SEQUENCE_IN_BODY, "a sequence is carried that is not empty at first")
    return ctx.expanded(x)


def _is_empty_sequence(x: Batched) -> bool:
    return x.is_shared and is_operator(x.value.producer(), "SequenceEmpty")


def loop(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
    """Loop.

    1. A trip count and a condition that are one for all samples: one Loop. A carried value is
       stacked if it starts stacked or if the body makes it so. Scan outputs come out
       ``[trips, B, ...]`` and are transposed.
    2. Otherwise each sample takes part for as many steps as it has.
    """
    graph = node.attributes["body"].as_graph()
    count, condition = (ctx.optional(operands, i) for i in (0, 1))
    initial = [ctx.operand(operands, i) for i in range(2, len(operands))]
    if any(x is not None and not x.is_shared for x in (count, condition)):
        return loop_of_samples(ctx, node, operands)
    states = [STACKED if _is_empty_sequence(x) else form_of(x) for x in initial]
    rounding = carries_rounding(ctx, node, operands)
    body = batch_body(ctx, graph, [SHARED, SHARED], states, [], 1, {}, rounding)
    _require_ranks(ctx, graph.inputs[2:], initial, body.outputs[1:])
    if not body.outputs[0].is_shared:
        return loop_of_samples(ctx, node, operands)
    yields = zip(body.outputs, graph.outputs, strict=True)
    steps = [_as_declared(ctx, x, value) for x, value in yields][1 + len(states) :]
    used = [is_used(out) for out in node.outputs[len(states) :]]
    kept = [x for x, is_used in zip(steps, used, strict=True) if is_used]
    if any(x.is_packed for x in kept):
        raise Decline(Code.RAGGED, "what its steps yield may differ in length")
    layouts = [Layout.SHARED, *(s.layout for s in states), *(x.layout for x in kept)]
    body.outputs[1 + len(states) :] = kept
    closed = close_body(ctx, body, layouts)
    inputs = [
        None if count is None else count.value,
        None if condition is None else condition.value,
        *(
            _expanded_state(ctx, x) if form is STACKED else x.value
            for x, form in zip(initial, states, strict=True)
        ),
    ]
    new = ctx.builder.node("Loop", inputs, {"body": closed}, outputs=len(states) + len(kept))
    new.metadata_props[BATCHED_KEY] = ctx.builder.origin
    outputs: list[Output | None] = [
        Batched(s.layout, v, lengths=s.lengths, axis=s.axis, beside=s.beside)
        for v, s in zip(new.outputs, states, strict=False)
    ]
    yielded = zip(new.outputs[len(states) :], kept, strict=True)
    return outputs + [_steps_behind(ctx, *next(yielded)) if is_used else None for is_used in used]


def _as_declared(ctx: Context, x: Batched, value: ir.Value) -> Batched:
    """Return a scan output with its declared dimensions: they show where there are no steps."""
    dims = ctx.declared_dims(value)
    return x if dims is None else dataclasses.replace(x, type=ValueType(x.type.type, dims))


def _steps_behind(ctx: Context, value: ir.Value, x: Batched) -> Output:
    """Return a scan output ``[trips, B, *s]`` as ``[B, trips, *s]``."""
    if x.is_shared:
        return ctx.shared(value)
    order = [1, 0, *range(2, x.rank + 2)]
    turned = ctx.op("Transpose", [value], {"perm": order})
    target = ctx.op("Concat", [ctx.batch, ctx.shape(turned, 1)], {"axis": 0})
    return ctx.stacked(ctx.reshape(turned, target))


def scan(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Scan: stacked operands are scanned along the axis behind the batch axis.

    onnxruntime kills the process on a Scan over a batch of 0, and fails on one of no steps: where
    there may be no samples, one sample of zeros is appended and cut off again, and a shared
    operand without rows gets one where there are none.
    """
    graph = node.attributes["body"].as_graph()
    number = node.attributes["num_scan_inputs"].as_int()
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    axes = ctx.attribute(node, "scan_input_axes", [0] * number)
    extra: dict[ir.Value, Batched] = {}
    surroundings = ctx
    if ctx.may_be_empty:
        given = _with_spare_rows(ctx, given, axes)
        surroundings = ctx.with_batch(ctx.builder, ctx.op("Add", [ctx.batch, ctx.ints(1)]))
        given = [_with_spare(ctx, x) for x in given]
        extra = {value: _with_spare(ctx, ctx.read(value)) for value in captured_values(graph)}
    initial, scanned = given[: len(given) - number], given[len(given) - number :]
    states = [form_of(x) for x in initial]
    rounding = carries_rounding(ctx, node, operands)
    rows = [form_of(x) for x in scanned]
    body = batch_body(surroundings, graph, [], states, rows, 0, extra, rounding)
    _require_ranks(ctx, graph.inputs, initial, body.outputs)
    steps = body.outputs[len(states) :]
    if any(x.is_packed for x in steps):
        raise Decline(Code.RAGGED, "what its body yields may differ in length")
    held = [*(s.layout for s in states), *(x.layout for x in steps)]
    closed = close_body(surroundings, body, held)
    inputs = [
        surroundings.expanded(x) if form is STACKED else x.value
        for x, form in zip(initial, states, strict=True)
    ]
    out_axes = ctx.attribute(node, "scan_output_axes", [0] * len(steps))
    attributes = {
        **node.attributes,
        "body": closed,
        "scan_input_axes": _axes_behind(axes, scanned),
        "scan_output_axes": _axes_behind(out_axes, steps),
    }
    inputs += [x.value for x in scanned]
    new = ctx.builder.node("Scan", inputs, attributes, outputs=len(node.outputs))
    new.metadata_props[BATCHED_KEY] = ctx.builder.origin
    outputs = []
    for value, layout in zip(new.outputs, held, strict=True):
        cut = value
        if ctx.may_be_empty and layout is Layout.STACKED:
            cut = ctx.op("Slice", [value, ctx.ints(0), ctx.batch, ctx.ints(0)])
        outputs.append(Batched(layout, cut))
    return outputs


def _axes_behind(axes: Sequence[int], values: Sequence[Batched]) -> list[int]:
    """Return axes of samples as they count behind the batch axis, where values are stacked."""
    pairs = zip(axes, values, strict=True)
    return [axis + (x.is_stacked and axis >= 0) for axis, x in pairs]


def _with_spare_rows(ctx: Context, given: Sequence[Batched], axes: Sequence[int]) -> list[Batched]:
    """Give the shared operands that are scanned, the last ones, a row where they have none."""
    scanned = zip(given[len(given) - len(axes) :], axes, strict=True)
    longer = [
        dataclasses.replace(x, value=with_spare_row(ctx, x, axis)) if x.is_shared else x
        for x, axis in scanned
    ]
    return [*given[: len(given) - len(axes)], *longer]


def _with_spare(ctx: Context, x: Batched) -> Batched:
    """Append one sample of zeros to a stacked value."""
    return x if x.is_shared else dataclasses.replace(x, value=with_spare_sample(ctx, x))
