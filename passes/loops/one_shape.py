"""Checks that samples which a loop collects in one tensor have the shape that is declared.

onnxruntime compares the sizes of what the steps of a Loop yield, not the shapes: (10, 7, 3) and
(3, 7, 10) become one scan output of (2, 10, 7, 3), and a concatenation passes over tensors without
elements. Where a number is only declared, the loop collects the shapes too, and a Reshape behind
it fails where they differ. With shapes ``[[10, 7, 3], [3, 7, 10]]`` two numbers differ from the
first row, and the tensor cannot be reshaped to ``[2 + 2, 10 + 2, 7 + 2, 3 + 2]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.graph.builder import Builder
from passes.loops.forms import Form, LoopBody, OutputPlan

__all__ = ["lacks_dims", "with_shapes", "with_true_shape"]

_INT64 = ir.DataType.INT64


def with_shapes(
    body: LoopBody, plans: Mapping[int, OutputPlan]
) -> tuple[LoopBody, dict[int, OutputPlan], dict[int, int]]:
    """Let a loop collect the shapes of what it collects, where these have to be checked.

    Args:
        body: What is computed for each sample.
        plans: How each used output is collected.

    Returns:
        The body and the plans, with an output for each of these shapes, and the position of that
        output for each output that it belongs to.
    """
    checked = [i for i, plan in plans.items() if _is_checked(plan)]
    nodes = [ir.node("Shape", [body.outputs[i]]) for i in checked]
    first = len(body.outputs)
    positions = {i: first + k for k, i in enumerate(checked)}
    shapes = [node.outputs[0] for node in nodes]
    for value in shapes:
        value.name = "shape"
    rows = {positions[i]: _row_plan(len(plans[i].dims or ())) for i in checked}
    body = dataclasses.replace(body, nodes=[*body.nodes, *nodes], outputs=[*body.outputs, *shapes])
    return body, {**plans, **rows}, positions


def lacks_dims(plan: OutputPlan) -> bool:
    """Whether a tensor that a Loop of no steps yields has other dimensions than are declared."""
    return plan.form is Form.SCAN_OUTPUT and plan.is_tensor and bool(plan.declared_axes)


def _row_plan(rank: int) -> OutputPlan:
    return OutputPlan(Form.SCAN_OUTPUT, _INT64, (rank,), proven=(rank,))


def _is_checked(plan: OutputPlan) -> bool:
    """Whether samples could differ where they are taken to be equal, and nothing would fail.

    Tensors of one size that differ along one axis alone would differ in size, unless they have
    no elements.
    """
    if plan.form is Form.INSERTION or plan.is_shared or plan.dims is None:
        return False
    declared = plan.declared_axes
    if plan.form is Form.BLOCKS:
        return any(axis in _other_axes(plan) for axis in declared)
    if None in plan.dims:
        return False
    others = [d for axis, d in enumerate(plan.dims) if axis not in declared]
    return bool(declared[1:] or (declared and not all(isinstance(d, int) for d in others)))


def _other_axes(plan: OutputPlan) -> list[int]:
    """Return the axes of a packed sample along which samples are equal."""
    rank = len(plan.dims or ())
    return [axis for axis in range(rank) if axis != plan.axis % rank]


def with_true_shape(
    builder: Builder,
    plan: OutputPlan,
    held: Batched,
    rows: ir.Value | None,
    count: ir.Value,
    *,
    is_some: bool = False,
) -> Batched:
    """Record a Reshape that fails where the samples of a collected tensor differ in shape.

    A Loop of no steps yields 0 for each dimension that its types do not tell: a tensor that is
    read has the declared dimensions then.

    Args:
        builder: Writes the graph of the loop.
        plan: How the tensor was collected.
        held: What was collected.
        rows: The shape of each sample, int64 ``[B, rank]``, if they have to be compared.
        count: Number of samples, an int64 scalar.
        is_some: Whether there is at least one.
    """
    dims = plan.dims or ()
    may_lack = lacks_dims(plan) and not is_some
    if rows is None and not may_lack:
        return held
    shape = builder.op("Shape", [held.value])
    if may_lack:
        none = builder.ints(0, *(d if isinstance(d, int) else 0 for d in dims))
        is_empty = builder.op("Equal", [count, builder.scalar(0)])
        shape = builder.op("Where", [is_empty, none, shape])
    if rows is not None:
        if plan.form is Form.BLOCKS:
            others = builder.ints(*_other_axes(plan))
            rows = builder.op("Gather", [rows, others], {"axis": 1})
        shape = builder.op("Add", [shape, _differing(builder, rows)])
    value = builder.op("Reshape", [held.value, shape], {"allowzero": 1})
    value.type = held.value.type
    return dataclasses.replace(held, value=value)


def _differing(builder: Builder, rows: ir.Value) -> ir.Value:
    """Record how many numbers differ from those of the first row, 0 without rows."""
    first = builder.op("Slice", [rows, builder.ints(0), builder.ints(1), builder.ints(0)])
    differs = builder.op("Not", [builder.op("Equal", [rows, first])])
    flags = builder.op("Cast", [differs], {"to": ir.DataType.INT64})
    return builder.op("ReduceSum", [flags], {"keepdims": 0})
