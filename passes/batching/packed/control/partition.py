"""If whose condition differs from sample to sample: each branch runs for those that take it.

Conditions ``[1, 0, 1]``: samples 0 and 2 go through one branch and sample 1 through the other.
Their results, in the order ``[0, 2, 1]``, are read back in the order of the samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Output
from passes.batching.flat.grid import Side
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.batching.packed.control.joint_forms import (
    JointForm,
    joint_form,
    lengths_along,
    output_of_form,
    rows_of_forms,
)
from passes.batching.packed.control.some_samples import Subset, inverse_of
from passes.graph.builder import Builder
from passes.graph.graphs import captured_values, is_operator, walk_nodes
from passes.typing import ValueType

__all__ = ["partitioned"]

_DEAR = frozenset(
    {"Attention", "Conv", "ConvTranspose", "GRU", "Gemm", "LSTM", "Loop", "MatMul", "RNN", "Scan"}
)
"""What takes long even without samples, or where it reads none of them."""


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
    picked: Subset
    outputs: list[Batched]
    is_total: bool


def partitioned(ctx: Context, flags: ir.Value, graphs: Sequence[ir.Graph]) -> Sequence[Output]:
    """Run each of two branches for the samples that take it, and put the results in order.

    A branch that no sample takes does not run. For a target without If it runs on no samples,
    where that cannot fail; for a device, too, unless it holds a loop or a product. Results of one
    shape are stacked; those that differ along the first axis are packed, others flat.

    Args:
        ctx: The context.
        flags: Which samples take the first branch, bool ``[B]``.
        graphs: The branches.

    Raises:
        Decline: The shapes of two results differ in a way that no layout has.
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
    may_run = ctx.lacks("If") or ctx.for_device
    local = ctx.with_batch(builder, builder.op("Shape", [numbers]), may_be_empty=may_run)
    picked = Subset(local, numbers)
    failing = ctx.count_failing()
    captured = {v: picked.of(ctx.read(v)) for v in captured_values(graph)}
    outputs = local.nested(graph, captured, builder, keeps_flat=True)
    is_light = ctx.lacks("If") or not any(is_operator(n, _DEAR) for n in walk_nodes(builder.nodes))
    is_total = may_run and is_light and ctx.count_failing() == failing
    return _Group(numbers, builder, local, picked, outputs, is_total)


def _form(ctx: Context, groups: Sequence[_Group], index: int) -> JointForm:
    """Return how a result of both groups is held."""
    one, other = (group.outputs[index] for group in groups)
    origins = [_Origins(group.picked, group.outputs[index]) for group in groups]
    return joint_form(ctx, one, other, lambda axis: _same(axis, origins))


@dataclasses.dataclass
class _Origins:
    """Where the dimensions of a result of a group come from."""

    picked: Subset
    x: Batched

    def along(self, axis: int) -> Lengths | None:
        """Return the lengths of all samples that those along an axis were picked from."""
        return self.picked.origin(lengths_along(self.x, axis))


def _same(axis: int, origins: Sequence[_Origins]) -> Lengths | None:
    one, other = (o.along(axis) for o in origins)
    return one if one is other else None


def _write(ctx: Context, group: _Group, forms: Sequence[JointForm]) -> Sequence[ir.Value]:
    """Record a branch, behind an If that asks whether a sample takes it unless it may run anyway.

    Returns:
        Its results, and the lengths that each has of its own.
    """

    def run(inner: Builder) -> Sequence[ir.Value]:
        found = rows_of_forms(group.local, group.outputs, forms)
        inner.nodes.extend(group.builder.nodes)
        return found

    def skip(inner: Builder) -> Sequence[ir.Value]:
        sizes = [inner.ints() for form in forms for _ in form.own]
        return [*(inner.constant(form.empty) for form in forms), *sizes]

    if group.is_total:
        return run(ctx.builder)
    some = ctx.op("Greater", [ctx.op("Size", [group.numbers]), ctx.builder.scalar(0)])
    attributes = {
        "then_branch": ctx.builder.subgraph("taken", [], run),
        "else_branch": ctx.builder.subgraph("not_taken", [], skip),
    }
    count = len(forms) + sum(len(form.own) for form in forms)
    return ctx.builder.node("If", [some], attributes, outputs=count).outputs


def _in_order(
    ctx: Context,
    order: ir.Value,
    forms: Sequence[JointForm],
    yielded: Sequence[Sequence[ir.Value]],
) -> list[Output]:
    """Put the results of two groups into the order of the samples."""
    back = Subset(ctx, inverse_of(ctx, order))
    sizes = iter(zip(*(values[len(forms) :] for values in yielded), strict=True))
    grouped: dict[Lengths, Lengths] = {}

    def grouped_side(side: Side | None) -> Side:
        if side is None:
            return Lengths(ctx.builder, ctx.op("Concat", list(next(sizes)), {"axis": 0}))
        if isinstance(side, int):
            return side
        if side not in grouped:
            together = ctx.op("Gather", [side.value, order], {"axis": 0})
            grouped[side] = Lengths(ctx.builder, together)
            back.know(grouped[side], side)
        return grouped[side]

    outputs = []
    for form, pair in zip(forms, zip(*yielded, strict=True), strict=False):
        value = ctx.op("Concat", list(pair), {"axis": 0})
        type_ = ValueType(ir.TensorType(ir.DataType.from_numpy(form.empty.dtype)), ())
        out = output_of_form(ctx, form, value, [grouped_side(side) for side in form.sides])
        x = back.of(Batched(out.layout, value, type_, lengths=out.lengths, flat=out.flat))
        outputs.append(Batched(x.layout, x.value, lengths=x.lengths, flat=x.flat))
    return outputs
