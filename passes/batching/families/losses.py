"""Losses over classes, written out: the operators yield one number for all samples at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline

__all__ = [
    "loss_and_weight",
    "negative_log_likelihood_loss",
    "reduction_of",
    "softmax_cross_entropy_loss",
]


def reduction_of(ctx: Context, node: ir.Node) -> str:
    """Return what becomes of the losses of a sample: none, mean or sum.

    Raises:
        Decline: It is none of them; onnxruntime takes any word for one of them.
    """
    reduction = str(ctx.attribute(node, "reduction", "mean"))
    if reduction not in ("none", "mean", "sum"):
        raise Decline(Code.NO_RULE, f"its reduction {reduction!r} is none of ONNX's")
    return reduction


def negative_log_likelihood_loss(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """NegativeLogLikelihoodLoss of log probabilities ``[N, C, ...]``."""
    data = ctx.operand(operands, 0, "input")
    return [_loss(ctx, node, data, ctx.expanded(data), operands)]


def softmax_cross_entropy_loss(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> Sequence[Output]:
    """SoftmaxCrossEntropyLoss: the logarithm of Softmax over the classes, and its loss."""
    scores = ctx.operand(operands, 0, "scores")
    logs = _log_softmax(ctx, ctx.expanded(scores), scores.rank)
    found = [_loss(ctx, node, scores, logs, operands), ctx.stacked(logs)]
    return found[: len(node.outputs)]


def _log_softmax(ctx: Context, scores: ir.Value, rank: int) -> ir.Value:
    """Return ``log(softmax)`` of stacked samples over their axis 1, which is axis 2.

    Before opset 13 LogSoftmax flattens all axes from the given one on: the axis goes last.
    """
    if ctx.opset >= 13 or rank == 2:
        return ctx.op("LogSoftmax", [scores], {"axis": 2})
    order = [0, 1, *range(3, rank + 1), 2]
    back = [0, 1, rank, *range(2, rank)]
    turned = ctx.op("Transpose", [scores], {"perm": order})
    logs = ctx.op("LogSoftmax", [turned], {"axis": rank})
    return ctx.op("Transpose", [logs], {"perm": back})


@dataclasses.dataclass
class _Targets:
    """The wanted classes.

    Attributes:
        classes: Integers ``[B, N, ...]``, 0 where the target is ignored.
        ignored: Where it is, None if none is.
        rank: Rank of a sample.
    """

    classes: ir.Value
    ignored: ir.Value | None
    rank: int


def _loss(
    ctx: Context,
    node: ir.Node,
    data: Batched,
    logs: ir.Value,
    operands: Sequence[Operand],
) -> Output:
    """Return the loss of stacked log probabilities ``[B, N, C, ...]``."""
    losses, weights, rank = _weighed(ctx, node, data, logs, operands)
    reduction = reduction_of(ctx, node)
    if reduction == "none":
        return ctx.stacked(losses)
    if reduction == "sum":
        return ctx.stacked(_reduced(ctx, "ReduceSum", losses, rank))
    if weights is None:
        return ctx.stacked(_reduced(ctx, "ReduceMean", losses, rank))
    total, divisor = (_reduced(ctx, "ReduceSum", x, rank) for x in (losses, weights))
    return ctx.stacked(ctx.op("Div", [total, divisor]))


def loss_and_weight(
    ctx: Context, node: ir.Node, operands: Sequence[Operand]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the sums of the losses and of the weights of each sample, and log probabilities."""
    data = ctx.operand(operands, 0)
    logs = ctx.expanded(data)
    if node.op_type == "SoftmaxCrossEntropyLoss":
        logs = _log_softmax(ctx, logs, data.rank)
    losses, weights, rank = _weighed(ctx, node, data, logs, operands)
    if weights is None:
        raise Decline(Code.NO_RULE, "its targets have no weights")
    total, weight = (_reduced(ctx, "ReduceSum", x, rank) for x in (losses, weights))
    return total, weight, logs


def _weighed(
    ctx: Context,
    node: ir.Node,
    data: Batched,
    logs: ir.Value,
    operands: Sequence[Operand],
) -> tuple[ir.Value, ir.Value | None, int]:
    """Return the weighted loss of each target ``[B, N, ...]``, its weight, and the rank."""
    zero = ctx.builder.constant(np.array(0, data.element_type.numpy()))
    targets = _targets(ctx, node, ctx.operand(operands, 1, "target"))
    columns = ctx.unsqueeze(targets.classes, [2])
    picked = ctx.op("GatherElements", [logs, columns], {"axis": 2})
    losses = ctx.op("Neg", [ctx.squeeze(picked, [2])])
    if targets.ignored is not None:
        losses = ctx.op("Where", [targets.ignored, zero, losses])
    weights = _weights(ctx, targets, ctx.optional(operands, 2), data.element_type)
    if weights is not None:
        losses = ctx.op("Mul", [losses, weights])
    return losses, weights, targets.rank


def _targets(ctx: Context, node: ir.Node, target: Batched) -> _Targets:
    classes = ctx.expanded(target)
    number = ctx.attribute(node, "ignore_index")
    if number is None:
        return _Targets(classes, None, target.rank)
    dtype = target.element_type.numpy()
    none, first = (ctx.builder.constant(np.array(n, dtype)) for n in (number, 0))
    ignored = ctx.op("Equal", [classes, none])
    return _Targets(ctx.op("Where", [ignored, first, classes]), ignored, target.rank)


def _weights(
    ctx: Context, targets: _Targets, weight: Operand, dtype: ir.DataType
) -> ir.Value | None:
    """Return the weight of each target ``[B, N, ...]``, None if every one counts as 1."""
    zero, one = (ctx.builder.constant(np.array(n, dtype.numpy())) for n in (0, 1))
    if weight is None:
        if targets.ignored is None:
            return None
        return ctx.op("Where", [targets.ignored, zero, one])
    if weight.is_shared:
        found = ctx.op("Gather", [weight.value, targets.classes], {"axis": 0})
    else:
        wide = ctx.op("Cast", [targets.classes], {"to": ir.DataType.INT64})
        places = ctx.unsqueeze(wide, [targets.rank + 1])
        found = ctx.op("GatherND", [weight.value, places], {"batch_dims": 1})
    if targets.ignored is None:
        return found
    return ctx.op("Where", [targets.ignored, zero, found])


def _reduced(ctx: Context, op_type: str, value: ir.Value, rank: int) -> ir.Value:
    """Reduce every sample to one number."""
    return ctx.reduce(op_type, value, range(1, rank + 1), keepdims=False)
