"""If inside of a body."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching import table
from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.row_by_row import are_alike
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.control.joint_forms import either
from passes.batching.packed.control.partition import partitioned
from passes.batching.packed.control.some_samples import as_packed
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.if_outputs import branches_of
from passes.graph.picking import can_pick, pick

__all__ = ["branch"]

_HEAVY = frozenset({"attention", "convolution", "matrix product", "recurrent"})
"""Operators too expensive to compute for samples that do not take the branch."""


def branch(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """If.

    1. Shared condition: one If; both of its branches are batched.
    2. Condition per sample: both branches run for all samples and Where picks, provided that
       neither can fail or is heavy, and both yield one shape.
    3. Otherwise each branch runs for the samples that take it.
    """
    condition = ctx.operand(operands, 0, "condition")
    graphs = branches_of(node)
    if condition.is_shared:
        return _shared_branch(ctx, condition, graphs)
    if condition.dims not in ((), (1,)):
        raise Decline(Code.CONTROL_FLOW, "the condition is not one value")
    flags = ctx.squeeze(condition.value, [1]) if condition.rank else condition.value
    if _may_run_for_all(ctx, graphs):
        picked = _picked(ctx, flags, graphs)
        if picked is not None:
            return picked
    return partitioned(ctx, flags, graphs)


def _shared_branch(
    ctx: Context, condition: Batched, graphs: Sequence[ir.Graph]
) -> Sequence[Output]:
    builders, made = _run(ctx, graphs)
    pairs = list(zip(*made, strict=True))
    if any(x.flat is not None for pair in pairs for x in pair):
        return either(ctx, condition.value, builders, made)
    forms = [_form(*pair) for pair in pairs]
    own = [i for i, pair in enumerate(pairs) if forms[i] is Layout.PACKED and not _alike(*pair)]
    branches = []
    for name, builder, outputs in zip(("then", "else"), builders, made, strict=True):
        write = _writer(ctx, builder, outputs, forms, own)
        branches.append(ctx.builder.subgraph(name, [], write))
    attributes = {"then_branch": branches[0], "else_branch": branches[1]}
    count = len(forms) + len(own)
    new = ctx.builder.node("If", [condition.value], attributes, outputs=count).outputs
    results = []
    for i, (value, layout, pair) in enumerate(zip(new, forms, pairs, strict=False)):
        lengths = pair[0].lengths if layout is Layout.PACKED else None
        if i in own:
            lengths = Lengths(ctx.builder, new[len(forms) + own.index(i)])
        results.append(Batched(layout, value, lengths=lengths, axis=pair[0].axis))
    return results


def _run(ctx: Context, graphs: Sequence[ir.Graph]) -> tuple[list[Builder], list[list[Batched]]]:
    """Record each branch by itself; return what records it, and what it yields."""
    builders = [Builder(ctx.builder.origin) for _ in graphs]
    made = [ctx.nested(g, {}, b, keeps_flat=True) for g, b in zip(graphs, builders, strict=True)]
    return builders, made


def _form(one: Batched, other: Batched) -> Layout:
    """Return the layout of a result of two branches.

    Raises:
        Decline: The two have none in common.
    """
    if one.is_packed or other.is_packed:
        if not _alike(one, other) and (one.rank != other.rank or not one.rank):
            raise Decline(Code.RAGGED, "its branches yield samples of different rank")
        if not _alike(one, other) and (one.axis or other.axis):
            raise Decline(Code.RAGGED, "its branches yield different lengths of another axis")
        return Layout.PACKED
    if one.is_shared and other.is_shared:
        return Layout.SHARED
    for x in (one, other):
        is_sequence = not isinstance(x.type.type, ir.TensorType)
        if is_sequence and x.is_shared and not _is_empty_sequence(x):
            raise Decline(Code.SEQUENCE_IN_BODY, "only one of its branches yields one of samples")
    return Layout.STACKED


def _is_empty_sequence(x: Batched) -> bool:
    return is_operator(x.value.producer(), "SequenceEmpty")


def _alike(one: Batched, other: Batched) -> bool:
    return one.is_packed and one.lengths is other.lengths and one.axis == other.axis


def _lie_alike(one: Batched, other: Batched) -> bool:
    """Whether two flat values have the same rows."""
    flats = [x.flat for x in (one, other) if x.flat is not None]
    return len(flats) > 1 and all(f.is_plain for f in flats) and are_alike(flats)


def _writer(
    ctx: Context,
    builder: Builder,
    outputs: Sequence[Batched],
    forms: Sequence[Layout],
    own: Sequence[int],
) -> Callable[[Builder], Sequence[ir.Value]]:
    """Return what writes one branch: its results, and the lengths of those of ``own``."""

    def write(inner: Builder) -> Sequence[ir.Value]:
        inner.nodes.extend(builder.nodes)
        local = ctx.inside(inner)
        values: list[ir.Value] = []
        sizes: list[ir.Value] = []
        for i, (x, layout) in enumerate(zip(outputs, forms, strict=True)):
            if i in own:
                rows, lengths = as_packed(local, x)
                values.append(_typed(rows, x.dtype))
                sizes.append(_typed(lengths, ir.DataType.INT64))
            elif layout is Layout.STACKED and not _is_empty_sequence(x):
                values.append(_of_kind(local.expanded(x), x))
            else:
                values.append(x.value)
        return [*values, *sizes]

    return write


def _of_kind(value: ir.Value, like: Batched) -> ir.Value:
    """Write the element type on a value that has no type: a tensor, or a sequence of stacks."""
    typed = _typed(value, like.dtype)
    if isinstance(like.type.type, ir.SequenceType) and isinstance(typed.type, ir.TensorType):
        typed.type = ir.SequenceType(typed.type)
    return typed


def _typed(value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    if value.type is None and dtype is not None:
        value.type = ir.TensorType(dtype)
    return value


def _may_run_for_all(ctx: Context, graphs: Sequence[ir.Graph]) -> bool:
    """Whether both branches may run for samples that do not take them, at little cost."""
    for graph in graphs:
        for inner in walk_nodes(graph):
            if not ctx.runs_anywhere(inner):
                return False
            row = table.find(inner, ctx.opset)
            if isinstance(row, table.Row) and row.family in _HEAVY:
                return False
    return True


def _picked(ctx: Context, flags: ir.Value, graphs: Sequence[ir.Graph]) -> Sequence[Output] | None:
    """Run both branches for all samples and pick; None if shapes may differ or nothing picks."""
    builders, made = _run(ctx, graphs)
    pairs = list(zip(*made, strict=True))
    yielded = zip(*(graph.outputs for graph in graphs), strict=True)
    equal = [ctx.have_one_shape(*pair) for pair in yielded]
    if not all(
        can_pick(pair[0].dtype) and _are_one_shape(*pair, is_equal=is_equal)
        for pair, is_equal in zip(pairs, equal, strict=True)
    ):
        return None
    for builder in builders:
        ctx.builder.nodes.extend(builder.nodes)
    outputs = []
    for one, other in pairs:
        picks = flags
        if one.flat is not None:
            grid = one.flat.grid.recorded_by(ctx.builder, builders)
            one = dataclasses.replace(one, flat=dataclasses.replace(one.flat, grid=grid))
            picks = ctx.op("Gather", [flags, one.own_flat.grid.rows.samples], {"axis": 0})
            picks = ctx.unsqueeze(picks, range(1, one.rank - one.own_flat.grid.rank + 1))
        elif one.lengths is not None:
            picks = ctx.op("Gather", [flags, one.lengths.samples], {"axis": 0})
            picks = ctx.unsqueeze(picks, range(1, one.rank - one.axis))
        elif one.rank:
            picks = ctx.unsqueeze(flags, range(1, one.rank + 1))
        assert one.dtype is not None
        value = pick(ctx.builder, picks, one.value, other.value, one.dtype)
        held = Layout.STACKED if one.is_shared else one.layout
        outputs.append(Batched(held, value, lengths=one.lengths, axis=one.axis, flat=one.flat))
    return outputs


def _are_one_shape(one: Batched, other: Batched, *, is_equal: bool) -> bool:
    """Whether no axis of two results could broadcast: lengths are the same, or known numbers.

    Args:
        one: A result.
        other: The result that may take its place.
        is_equal: Whether the two have one shape in each sample, by proof.
    """
    if (one.is_packed or other.is_packed) and not _alike(one, other):
        return False
    if one.flat is not None or other.flat is not None:
        return _lie_alike(one, other)
    if one.type.dims is None or not isinstance(one.type.type, ir.TensorType):
        return False
    if is_equal:
        return True
    skipped = one.axis if one.is_packed else None
    pairs = [p for i, p in enumerate(zip(one.dims, other.dims, strict=False)) if i != skipped]
    return one.rank == other.rank and all(isinstance(a, int) and a == b for a, b in pairs)
