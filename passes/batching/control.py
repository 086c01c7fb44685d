"""Loop and Scan inside of a body."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.carried_rounding import carries_rounding
from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.merging import with_spare_row, with_spare_sample
from passes.batching.packed.loop import loop_of_samples
from passes.decisions import Code, Decline
from passes.graph.builder import BATCHED_KEY, Builder
from passes.graph.graphs import captured_values, is_operator, is_used
from passes.typing import ValueType

__all__ = ["loop", "scan"]


@dataclasses.dataclass(frozen=True)
class _BodyForm:
    """How an input of a body is held."""

    layout: Layout
    lengths: Lengths | None = None
    axis: int = 0
    beside: Lengths | None = None


_SHARED, _STACKED = _BodyForm(Layout.SHARED), _BodyForm(Layout.STACKED)


@dataclasses.dataclass
class _BranchBody:
    """A body of Loop or Scan with a batch axis.

    Attributes:
        builder: Its nodes.
        inputs: Its new inputs.
        outputs: Its outputs.
    """

    builder: Builder
    inputs: list[ir.Value]
    outputs: list[Batched]


def _new_input(value: ir.Value, x: Batched) -> ir.Value:
    """Return the new input of a body for an old one that is held as ``x``."""
    new = ir.Value(name=value.name, type=x.type.type)
    new.shape = _shape(x, x.layout)
    return new


def _shape(x: Batched, layout: Layout) -> ir.Shape | None:
    """Return what is known of the shape of a value in a layout."""
    if x.type.dims is None or not isinstance(x.type.type, ir.TensorType):
        return None
    dims = [d if isinstance(d, int) else None for d in x.type.dims]
    if layout is Layout.PACKED:
        dims[x.axis] = None
    return ir.Shape([None, *dims] if layout is Layout.STACKED else dims)


def _batch_body(
    ctx: Context,
    graph: ir.Graph,
    forms: Sequence[_BodyForm],
    extra: Mapping[ir.Value, Batched],
    rounding: Sequence[bool],
) -> _BranchBody:
    """Batch a body whose inputs are held in given forms."""
    builder = Builder(ctx.builder.origin)
    inputs, bindings = [], dict(extra)
    for value, form, rounds in zip(graph.inputs, forms, rounding, strict=True):
        known = ctx.type_of(value)
        if form.layout is Layout.PACKED and known.dims == ():
            raise Decline(
                Code.RAGGED, f"{value.name} is declared a scalar, and its lengths differ"
            )
        x = Batched(
            form.layout,
            value,
            known,
            rounding=rounds,
            lengths=form.lengths,
            axis=form.axis,
            beside=form.beside,
        )
        new = _new_input(value, x)
        inputs.append(new)
        bindings[value] = dataclasses.replace(x, value=new)
    return _BranchBody(builder, inputs, ctx.nested(graph, bindings, builder))


def _fixpoint(
    ctx: Context,
    graph: ir.Graph,
    fixed_in: Sequence[_BodyForm],
    states: list[_BodyForm],
    scans: Sequence[_BodyForm],
    fixed_out: int,
    extra: Mapping[ir.Value, Batched],
    rounding: bool,
) -> _BranchBody:
    """Batch a body until each state has the layout that the body gives it.

    A state that starts shared and comes out stacked is stacked from the start. At most as many
    rounds as there are states are needed.
    """
    while True:
        forms = [*fixed_in, *states, *scans]
        rounds = [rounding and position >= len(fixed_in) for position in range(len(forms))]
        body = _batch_body(ctx, graph, forms, extra, rounds)
        outs = body.outputs[fixed_out : fixed_out + len(states)]
        grown = [_joined(x, was) for x, was in zip(outs, states, strict=True)]
        if grown == states:
            return body
        states[:] = grown


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


def _joined(x: Batched, was: _BodyForm) -> _BodyForm:
    """Return the form of a state that began in one form and came out in another."""
    if x.is_packed or was.layout is Layout.PACKED:
        if _form(x) != was:
            raise Decline(Code.RAGGED, "a state changes its length from step to step")
        return was
    return was if x.is_shared else _STACKED


def _expanded_state(ctx: Context, x: Batched) -> ir.Value:
    """Return an initial state as stacked; an empty sequence is one already."""
    if _is_empty_sequence(x):
        return x.value
    if isinstance(x.type.type, ir.SequenceType) and x.is_shared:
        raise Decline(Code.SEQUENCE_IN_BODY, "a sequence is carried that is not empty at first")
    return ctx.expanded(x)


def _is_empty_sequence(x: Batched) -> bool:
    return x.is_shared and is_operator(x.value.producer(), "SequenceEmpty")


def _close(ctx: Context, name: str, body: _BranchBody, layouts: Sequence[Layout]) -> ir.Graph:
    """Make the graph of a batched body; an output is expanded where its place is stacked."""

    def write(inner: Builder) -> Sequence[ir.Value]:
        inner.nodes.extend(body.builder.nodes)
        local = ctx.inside(inner)
        outputs = []
        for x, layout in zip(body.outputs, layouts, strict=True):
            value = local.expanded(x) if layout is Layout.STACKED else x.value
            outputs.append(_ranked(inner, value, x, layout))
        return outputs

    return ctx.builder.subgraph(name, body.inputs, write)


def _ranked(inner: Builder, value: ir.Value, x: Batched, layout: Layout) -> ir.Value:
    """Return an output of a body with its rank in its type, which onnxruntime's Scan asks for."""
    if isinstance(x.type.type, ir.SequenceType):
        return value
    copied = inner.op("Identity", [value])
    copied.type, copied.shape = x.type.type, _shape(x, layout)
    return copied


def _form(x: Operand) -> _BodyForm:
    return (
        _SHARED if x is None or x.is_shared else _BodyForm(x.layout, x.lengths, x.axis, x.beside)
    )


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
    states = [_STACKED if _is_empty_sequence(x) else _form(x) for x in initial]
    rounding = carries_rounding(ctx, node, operands)
    body = _fixpoint(ctx, graph, [_SHARED, _SHARED], states, [], 1, {}, rounding)
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
    closed = _close(ctx, "body", body, layouts)
    inputs = [
        None if count is None else count.value,
        None if condition is None else condition.value,
        *(
            _expanded_state(ctx, x) if form is _STACKED else x.value
            for x, form in zip(initial, states, strict=True)
        ),
    ]
    new = ctx.builder.node("Loop", inputs, {"body": closed}, outputs=len(states) + len(kept))
    new.metadata_props[BATCHED_KEY] = ctx.builder.origin
    outputs: list[Output | None] = [
        Output(v, s.layout, s.lengths, s.axis, s.beside)
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
        for i, axis in enumerate(axes, len(given) - number):
            if given[i].is_shared:
                row = with_spare_row(ctx, given[i], axis)
                given[i] = dataclasses.replace(given[i], value=row)
        surroundings = ctx.with_batch(ctx.builder, ctx.op("Add", [ctx.batch, ctx.ints(1)]))
        given = [_with_spare(ctx, x) for x in given]
        for value in captured_values(graph):
            x = ctx.read(value)
            extra[value] = _with_spare(ctx, x)
    initial, scanned = given[: len(given) - number], given[len(given) - number :]
    states = [_form(x) for x in initial]
    layouts = [x.layout for x in scanned]
    rounding = carries_rounding(ctx, node, operands)
    rows = [_form(x) for x in scanned]
    body = _fixpoint(surroundings, graph, [], states, rows, 0, extra, rounding)
    _require_ranks(ctx, graph.inputs, initial, body.outputs)
    steps = body.outputs[len(states) :]
    if any(x.is_packed for x in steps):
        raise Decline(Code.RAGGED, "what its body yields may differ in length")
    held = [*(s.layout for s in states), *(x.layout for x in steps)]
    closed = _close(surroundings, "body", body, held)
    inputs = [
        surroundings.expanded(x) if form is _STACKED else x.value
        for x, form in zip(initial, states, strict=True)
    ]
    out_axes = ctx.attribute(node, "scan_output_axes", [0] * len(steps))
    attributes = {
        **node.attributes,
        "body": closed,
        "scan_input_axes": [
            a + 1 if layout is Layout.STACKED and a >= 0 else a
            for a, layout in zip(axes, layouts, strict=True)
        ],
        "scan_output_axes": [
            a + 1 if x.is_stacked and a >= 0 else a for a, x in zip(out_axes, steps, strict=True)
        ],
    }
    inputs += [x.value for x in scanned]
    new = ctx.builder.node("Scan", inputs, attributes, outputs=len(node.outputs))
    new.metadata_props[BATCHED_KEY] = ctx.builder.origin
    outputs = []
    for value, layout in zip(new.outputs, held, strict=True):
        cut = value
        if ctx.may_be_empty and layout is Layout.STACKED:
            cut = ctx.op("Slice", [value, ctx.ints(0), ctx.batch, ctx.ints(0)])
        outputs.append(Output(cut, layout))
    return outputs


def _with_spare(ctx: Context, x: Batched) -> Batched:
    """Append one sample of zeros to a stacked value."""
    return x if x.is_shared else dataclasses.replace(x, value=with_spare_sample(ctx, x))
