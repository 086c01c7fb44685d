"""Bodies of Loop and Scan with an axis of samples.

A state that begins as one value for all samples, and comes out of an iteration as one for each,
has to begin as one for each: the body is batched again, until no state changes its layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.graph.builder import Builder

__all__ = ["SHARED", "STACKED", "BatchedBody", "BodyForm", "batch_body", "close_body", "form_of"]


@dataclasses.dataclass(frozen=True)
class BodyForm:
    """How an input of a body is held."""

    layout: Layout
    lengths: Lengths | None = None
    axis: int = 0
    beside: Lengths | None = None


SHARED, STACKED = BodyForm(Layout.SHARED), BodyForm(Layout.STACKED)


@dataclasses.dataclass
class BatchedBody:
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


def _batched_body(
    ctx: Context,
    graph: ir.Graph,
    forms: Sequence[BodyForm],
    extra: Mapping[ir.Value, Batched],
    rounding: Sequence[bool],
) -> BatchedBody:
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
    return BatchedBody(builder, inputs, ctx.nested(graph, bindings, builder))


def batch_body(
    ctx: Context,
    graph: ir.Graph,
    fixed_in: Sequence[BodyForm],
    states: list[BodyForm],
    scans: Sequence[BodyForm],
    fixed_out: int,
    extra: Mapping[ir.Value, Batched],
    rounding: bool,
) -> BatchedBody:
    """Batch a body until each state has the layout that the body gives it.

    A state that starts shared and comes out stacked is stacked from the start. At most as many
    rounds as there are states are needed.

    Args:
        ctx: The context of the node that holds the graph.
        graph: The body.
        fixed_in: The forms of its first inputs, which are no states.
        states: The forms of the states to begin with; they become those that the body yields.
        scans: The forms of what it reads a row of in each iteration.
        fixed_out: How many outputs stand in front of the states.
        extra: Values that the body captures, and what they are for all samples.
        rounding: Whether states and rows may have been rounded differently already.
    """
    while True:
        forms = [*fixed_in, *states, *scans]
        rounds = [rounding and position >= len(fixed_in) for position in range(len(forms))]
        body = _batched_body(ctx, graph, forms, extra, rounds)
        outs = body.outputs[fixed_out : fixed_out + len(states)]
        grown = [_joined(x, was) for x, was in zip(outs, states, strict=True)]
        if grown == states:
            return body
        states[:] = grown


def _joined(x: Batched, was: BodyForm) -> BodyForm:
    """Return the form of a state that began in one form and came out in another."""
    if x.is_packed or was.layout is Layout.PACKED:
        if form_of(x) != was:
            raise Decline(Code.RAGGED, "a state changes its length from step to step")
        return was
    return was if x.is_shared else STACKED


def close_body(ctx: Context, body: BatchedBody, layouts: Sequence[Layout]) -> ir.Graph:
    """Make the graph of a batched body; an output is expanded where its place is stacked."""

    def write(inner: Builder) -> Sequence[ir.Value]:
        inner.nodes.extend(body.builder.nodes)
        local = ctx.inside(inner)
        outputs = []
        for x, layout in zip(body.outputs, layouts, strict=True):
            value = local.expanded(x) if layout is Layout.STACKED else x.value
            outputs.append(_ranked(inner, value, x, layout))
        return outputs

    return ctx.builder.subgraph("body", body.inputs, write)


def _ranked(inner: Builder, value: ir.Value, x: Batched, layout: Layout) -> ir.Value:
    """Return an output of a body with its rank in its type, which onnxruntime's Scan asks for."""
    if isinstance(x.type.type, ir.SequenceType):
        return value
    copied = inner.op("Identity", [value])
    copied.type, copied.shape = x.type.type, _shape(x, layout)
    return copied


def form_of(x: Operand) -> BodyForm:
    """Return the form in which a body takes what an operand holds."""
    return SHARED if x is None or x.is_shared else BodyForm(x.layout, x.lengths, x.axis, x.beside)
