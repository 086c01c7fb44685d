"""If, Loop and Scan inside of a body."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.failing import is_total
from passes.batching.layouts import Batched, Layout
from passes.batching.merging import with_spare_sample
from passes.builder import BATCHED_KEY, Builder, drop_uses
from passes.decisions import Code, Decline
from passes.graphs import captured_values, walk_nodes

__all__ = ["branch", "loop", "scan"]


def branch(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """If.

    1. Shared condition: one If; both of its branches are batched.
    2. Condition per sample: both branches run for all samples and Where picks, provided that
       neither can fail and both yield one shape.
    """
    condition = ctx.operand(operands, 0, "condition")
    graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    if condition.is_shared:
        return _shared_branch(ctx, node, condition, graphs)
    return _picked(ctx, condition, graphs)


def _shared_branch(
    ctx: Context, node: ir.Node, condition: Batched, graphs: Sequence[ir.Graph]
) -> Sequence[Output]:
    builders = [Builder(ctx.builder.origin) for _ in graphs]
    made = [ctx.nested(g, {}, b) for g, b in zip(graphs, builders, strict=True)]
    layouts = [
        Layout.SHARED if all(x.is_shared for x in pair) else Layout.STACKED
        for pair in zip(*made, strict=True)
    ]
    branches = []
    for name, builder, outputs in zip(("then", "else"), builders, made, strict=True):

        def write(
            inner: Builder, builder: Builder = builder, outputs: Sequence[Batched] = outputs
        ) -> Sequence[ir.Value]:
            inner.nodes.extend(builder.nodes)
            local = ctx.inside(inner)
            return [
                x.value if layout is Layout.SHARED else _typed(local.expanded(x), x)
                for x, layout in zip(outputs, layouts, strict=True)
            ]

        branches.append(ctx.builder.subgraph(name, [], write))
    attributes = {"then_branch": branches[0], "else_branch": branches[1]}
    new = ctx.builder.node("If", [condition.value], attributes, outputs=len(node.outputs))
    return [Output(v, layout) for v, layout in zip(new.outputs, layouts, strict=True)]


def _typed(value: ir.Value, like: Batched) -> ir.Value:
    if value.type is None and like.dtype is not None:
        value.type = ir.TensorType(like.dtype)
    return value


def _picked(ctx: Context, condition: Batched, graphs: Sequence[ir.Graph]) -> Sequence[Output]:
    for graph in graphs:
        for inner in walk_nodes(graph):
            if inner.op_type != "Constant" and not is_total(inner, ctx.opset, ctx.type_of):
                detail = f"the condition is one per sample, and {inner.op_type} can fail"
                raise Decline(Code.CONTROL_FLOW, detail)
    made = [ctx.nested(g, {}, ctx.builder) for g in graphs]
    outputs = []
    for one, other in zip(*made, strict=True):
        same = one.dims == other.dims and all(isinstance(d, int) for d in one.dims)
        if not same or not isinstance(one.type.type, ir.TensorType):
            detail = "the condition differs from sample to sample and so may the shape"
            raise Decline(Code.CONTROL_FLOW, detail)
        if condition.rank > 1 or (condition.rank == 1 and condition.dims != (1,)):
            raise Decline(Code.CONTROL_FLOW, "the condition is not one value")
        target = ctx.op("Concat", [ctx.batch, ctx.ints(*[1] * one.rank)], {"axis": 0})
        picks = ctx.reshape(condition.value, target) if one.rank else condition.value
        if condition.rank == 1 and not one.rank:
            picks = ctx.squeeze(condition.value, [1])
        outputs.append(ctx.stacked(ctx.op("Where", [picks, one.value, other.value])))
    return outputs


@dataclasses.dataclass
class _Body:
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
    if x.type.dims is not None and isinstance(x.type.type, ir.TensorType):
        dims = [d if isinstance(d, int) else None for d in x.type.dims]
        new.shape = ir.Shape(dims if x.is_shared else [None, *dims])
    return new


def _batch_body(
    ctx: Context,
    graph: ir.Graph,
    layouts: Sequence[Layout],
    extra: Mapping[ir.Value, Batched],
) -> _Body:
    """Batch a body whose inputs have given layouts."""
    builder = Builder(ctx.builder.origin)
    inputs, bindings = [], dict(extra)
    for value, layout in zip(graph.inputs, layouts, strict=True):
        x = Batched(layout, value, ctx.type_of(value))
        new = _new_input(value, x)
        inputs.append(new)
        bindings[value] = dataclasses.replace(x, value=new)
    return _Body(builder, inputs, ctx.nested(graph, bindings, builder))


def _fixpoint(
    ctx: Context,
    graph: ir.Graph,
    fixed_in: Sequence[Layout],
    states: list[Layout],
    scans: Sequence[Layout],
    fixed_out: int,
    extra: Mapping[ir.Value, Batched],
) -> _Body:
    """Batch a body until each state has the layout that the body gives it.

    A state that starts shared and comes out stacked is stacked from the start. At most as many
    rounds as there are states are needed.
    """
    while True:
        body = _batch_body(ctx, graph, [*fixed_in, *states, *scans], extra)
        outs = body.outputs[fixed_out : fixed_out + len(states)]
        grown = [
            Layout.STACKED if Layout.STACKED in (x.layout, was) else Layout.SHARED
            for x, was in zip(outs, states, strict=True)
        ]
        if grown == states:
            return body
        drop_uses(body.builder.nodes)
        states[:] = grown


def _expanded_state(ctx: Context, x: Batched) -> ir.Value:
    """Return an initial state as stacked; an empty sequence is one already."""
    if _is_empty_sequence(x):
        return x.value
    if isinstance(x.type.type, ir.SequenceType) and x.is_shared:
        raise Decline(Code.SEQUENCE_IN_BODY, "a sequence is carried that is not empty at first")
    return ctx.expanded(x)


def _is_empty_sequence(x: Batched) -> bool:
    producer = x.value.producer()
    return x.is_shared and producer is not None and producer.op_type == "SequenceEmpty"


def _close(ctx: Context, name: str, body: _Body, layouts: Sequence[Layout]) -> ir.Graph:
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
    """Return an output of a body whose type tells its rank; onnxruntime's Scan asks for it."""
    copied = inner.op("Identity", [value])
    copied.type = x.type.type
    if x.type.dims is not None and isinstance(x.type.type, ir.TensorType):
        dims = [d if isinstance(d, int) else None for d in x.type.dims]
        copied.shape = ir.Shape([None, *dims] if layout is Layout.STACKED else dims)
    return copied


def _layout(x: Operand) -> Layout:
    return Layout.STACKED if x is not None and x.is_stacked else Layout.SHARED


def loop(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Loop with a trip count and a condition that are one for all samples.

    A carried value is stacked if it starts stacked or if the body makes it so. Scan outputs
    come out ``[trips, B, ...]`` and are transposed.
    """
    graph = node.attributes["body"].as_graph()
    count, condition = (ctx.optional(operands, i) for i in (0, 1))
    for x, name in ((count, "trip count"), (condition, "condition")):
        if x is not None and not x.is_shared:
            raise Decline(Code.CONTROL_FLOW, f"its {name} differs from sample to sample")
    initial = [ctx.operand(operands, i) for i in range(2, len(operands))]
    states = [Layout.STACKED if _is_empty_sequence(x) else _layout(x) for x in initial]
    fixed = [Layout.SHARED, Layout.SHARED]
    body = _fixpoint(ctx, graph, fixed, states, [], 1, {})
    if not body.outputs[0].is_shared:
        raise Decline(Code.CONTROL_FLOW, "its condition differs from sample to sample")
    scanned = [x.layout for x in body.outputs[1 + len(states) :]]
    closed = _close(ctx, "body", body, [Layout.SHARED, *states, *scanned])
    inputs = [
        None if count is None else count.value,
        None if condition is None else condition.value,
        *(
            x.value if layout is Layout.SHARED else _expanded_state(ctx, x)
            for x, layout in zip(initial, states, strict=True)
        ),
    ]
    new = ctx.builder.node("Loop", inputs, {"body": closed}, outputs=len(node.outputs))
    new.metadata_props[BATCHED_KEY] = ctx.builder.origin
    outputs = [Output(v, s) for v, s in zip(new.outputs, states, strict=False)]
    steps = body.outputs[1 + len(states) :]
    for value, x in zip(new.outputs[len(states) :], steps, strict=True):
        if x.is_shared:
            outputs.append(ctx.shared(value))
            continue
        order = [1, 0, *range(2, x.rank + 2)]
        turned = ctx.op("Transpose", [value], {"perm": order})
        target = ctx.op("Concat", [ctx.batch, ctx.shape(turned, 1)], {"axis": 0})
        outputs.append(ctx.stacked(ctx.reshape(turned, target)))
    return outputs


def scan(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Scan: stacked operands are scanned along the axis behind the batch axis.

    onnxruntime kills the process on a Scan over a batch of 0: where there may be no samples, one
    sample of zeros is appended and cut off again.
    """
    graph = node.attributes["body"].as_graph()
    number = node.attributes["num_scan_inputs"].as_int()
    given = [ctx.operand(operands, i) for i in range(len(operands))]
    extra: dict[ir.Value, Batched] = {}
    surroundings = ctx
    if ctx.may_be_empty:
        surroundings = ctx.with_batch(ctx.builder, ctx.op("Add", [ctx.batch, ctx.ints(1)]))
        given = [_with_spare(ctx, x) for x in given]
        for value in captured_values(graph):
            x = ctx.read(value)
            extra[value] = _with_spare(ctx, x)
    initial, scanned = given[: len(given) - number], given[len(given) - number :]
    states = [_layout(x) for x in initial]
    layouts = [_layout(x) for x in scanned]
    body = _fixpoint(surroundings, graph, [], states, layouts, 0, extra)
    steps = body.outputs[len(states) :]
    closed = _close(surroundings, "body", body, [*states, *(x.layout for x in steps)])
    inputs = [
        x.value if layout is Layout.SHARED else surroundings.expanded(x)
        for x, layout in zip(initial, states, strict=True)
    ]
    axes = ctx.attribute(node, "scan_input_axes") or [0] * number
    out_axes = ctx.attribute(node, "scan_output_axes") or [0] * len(steps)
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
    for value, layout in zip(new.outputs, [*states, *(x.layout for x in steps)], strict=True):
        cut = value
        if ctx.may_be_empty and layout is Layout.STACKED:
            cut = ctx.op("Slice", [value, ctx.ints(0), ctx.batch, ctx.ints(0)])
        outputs.append(Output(cut, layout))
    return outputs


def _with_spare(ctx: Context, x: Batched) -> Batched:
    """Append one sample of zeros to a stacked value."""
    return x if x.is_shared else dataclasses.replace(x, value=with_spare_sample(ctx, x))
