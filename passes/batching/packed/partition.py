"""If whose condition differs from sample to sample: each branch runs for those that take it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.packed.some_samples import SomeSamples, as_packed, inverse_of
from passes.decisions import Code, Decline
from passes.graph.builder import Builder
from passes.graph.graphs import captured_values
from passes.typing import ValueType

__all__ = ["partitioned"]


@dataclasses.dataclass
class _Group:
    """The samples that take one branch.

    Attributes:
        numbers: Which they are, int64 ``[N]``.
        builder: The nodes of the branch.
        local: Its context.
        picked: Picks their values.
        outputs: What the branch yields.
        is_total: Whether the branch may run without samples.
    """

    numbers: ir.Value
    builder: Builder
    local: Context
    picked: SomeSamples
    outputs: list[Batched]
    is_total: bool


@dataclasses.dataclass
class _PartForm:
    """How a result of both groups is held.

    Attributes:
        empty: No samples of it.
        is_packed: Whether it is packed, otherwise it is stacked.
        lengths: The lengths of all samples, if the result has those of an operand.
    """

    empty: np.ndarray
    is_packed: bool
    lengths: Lengths | None


def partitioned(ctx: Context, flags: ir.Value, graphs: Sequence[ir.Graph]) -> Sequence[Output]:
    """Run each of two branches for the samples that take it, and put the results in order.

    A branch that no sample takes does not run; for a target without If it runs on no samples,
    where that cannot fail. Results of one shape are stacked; others are packed.

    Args:
        ctx: The context.
        flags: Which samples take the first branch, bool ``[B]``.
        graphs: The branches.

    Raises:
        Decline: The shapes of two results differ behind the first axis.
    """
    sides = [flags, ctx.op("Not", [flags])]
    groups = [_run(ctx, side, graph) for side, graph in zip(sides, graphs, strict=True)]
    forms = [_form(ctx, groups, i) for i in range(len(graphs[0].outputs))]
    yielded = [_write(ctx, group, forms) for group in groups]
    order = ctx.op("Concat", [group.numbers for group in groups], {"axis": 0})
    return _in_order(ctx, order, forms, yielded)


def _run(ctx: Context, side: ir.Value, graph: ir.Graph) -> _Group:
    """Batch a branch for the samples that take it."""
    numbers = ctx.squeeze(ctx.op("NonZero", [side]), [0])
    builder = Builder(ctx.builder.origin)
    may_run = ctx.lacks("If")
    local = ctx.with_batch(builder, builder.op("Shape", [numbers]), may_be_empty=may_run)
    picked = SomeSamples(local, numbers)
    failing = ctx.count_failing()
    captured = {v: picked.of(ctx.read(v)) for v in captured_values(graph)}
    outputs = local.nested(graph, captured, builder)
    is_total = may_run and ctx.count_failing() == failing
    return _Group(numbers, builder, local, picked, outputs, is_total)


def _form(ctx: Context, groups: Sequence[_Group], index: int) -> _PartForm:
    """Return how a result is held.

    Raises:
        Decline: Its shapes differ by more than the first dimension, or are not known.
    """
    one, other = (group.outputs[index] for group in groups)
    if not isinstance(one.type.type, ir.TensorType) or one.dtype in (None, ir.DataType.STRING):
        raise Decline(Code.CONTROL_FLOW, "it yields what cannot be put in order")
    if one.axis or other.axis:
        raise Decline(Code.RAGGED, "its samples may differ in length behind the first axis")
    assert one.dtype is not None
    is_even = one.dims == other.dims and all(isinstance(d, int) for d in one.dims[:1])
    has_rows = one.is_packed or other.is_packed or not is_even
    start = int(has_rows)
    rest = [d for d in one.dims[start:] if isinstance(d, int)]
    is_alike = one.rank == other.rank and one.dims[start:] == other.dims[start:]
    if not is_alike or len(rest) + start != one.rank:
        raise Decline(Code.CONTROL_FLOW, "the condition and so the shape differs by sample")
    if has_rows and ctx.opset < 16:
        raise Decline(Code.OPSET, "rows of samples that differ in length need opset 16")
    origins = {group.picked.origin(group.outputs[index].lengths) for group in groups}
    lengths = origins.pop() if len(origins) == 1 else None
    return _PartForm(np.empty((0, *rest), one.dtype.numpy()), has_rows, lengths)


def _write(ctx: Context, group: _Group, forms: Sequence[_PartForm]) -> Sequence[ir.Value]:
    """Record a branch, behind an If that asks whether a sample takes it unless it may run anyway.

    Returns:
        Its results, and the lengths of each.
    """

    def run(inner: Builder) -> Sequence[ir.Value]:
        inner.nodes.extend(group.builder.nodes)
        local = ctx.with_batch(inner, group.local.batch, may_be_empty=group.local.may_be_empty)
        values, sizes = [], []
        for x, form in zip(group.outputs, forms, strict=True):
            rows, lengths = as_packed(local, x) if form.is_packed else (local.expanded(x), None)
            values.append(_typed(rows, form.empty))
            if _has_own_lengths(form):
                assert lengths is not None
                sizes.append(_typed(lengths, np.empty(0, np.int64)))
        return [*values, *sizes]

    def skip(inner: Builder) -> Sequence[ir.Value]:
        sizes = [inner.ints() for form in forms if _has_own_lengths(form)]
        return [*(inner.constant(form.empty) for form in forms), *sizes]

    if group.is_total:
        return run(ctx.builder)
    some = ctx.op("Greater", [ctx.op("Size", [group.numbers]), ctx.builder.scalar(0)])
    attributes = {
        "then_branch": ctx.builder.subgraph("taken", [], run),
        "else_branch": ctx.builder.subgraph("not_taken", [], skip),
    }
    count = len(forms) + sum(map(_has_own_lengths, forms))
    return ctx.builder.node("If", [some], attributes, outputs=count).outputs


def _has_own_lengths(form: _PartForm) -> bool:
    return form.is_packed and form.lengths is None


def _typed(value: ir.Value, like: np.ndarray) -> ir.Value:
    value.type = ir.TensorType(ir.DataType.from_numpy(like.dtype))
    value.shape = ir.Shape([None, *like.shape[1:]])
    return value


def _in_order(
    ctx: Context,
    order: ir.Value,
    forms: Sequence[_PartForm],
    yielded: Sequence[Sequence[ir.Value]],
) -> list[Output]:
    """Put the results of two groups into the order of the samples."""
    back = SomeSamples(ctx, inverse_of(ctx, order))
    sizes = iter(zip(*(values[len(forms) :] for values in yielded), strict=True))
    grouped: dict[Lengths, Lengths] = {}
    outputs = []
    for form, pair in zip(forms, zip(*yielded, strict=True), strict=False):
        value = ctx.op("Concat", list(pair), {"axis": 0})
        type_ = ValueType(ir.TensorType(ir.DataType.from_numpy(form.empty.dtype)), ())
        if not form.is_packed:
            x = back.of(Batched(Layout.STACKED, value, type_))
            outputs.append(ctx.stacked(x.value))
            continue
        lengths = grouped.get(form.lengths) if form.lengths is not None else None
        if lengths is None and form.lengths is not None:
            together = ctx.op("Gather", [form.lengths.value, order], {"axis": 0})
            lengths = grouped[form.lengths] = Lengths(ctx.builder, together)
            back.know(lengths, form.lengths)
        elif lengths is None:
            lengths = Lengths(ctx.builder, ctx.op("Concat", list(next(sizes)), {"axis": 0}))
        x = back.of(Batched(Layout.PACKED, value, type_, lengths=lengths))
        assert x.lengths is not None
        outputs.append(ctx.packed(x.value, x.lengths))
    return outputs
