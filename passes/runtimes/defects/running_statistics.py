"""BatchNormalization in training mode: onnxruntime writes its running statistics over weights."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import operand, operands
from passes.runtimes.types import Types

__all__ = ["from_means", "trains"]


def trains(node: ir.Node, types: Types) -> bool:
    """Whether a BatchNormalization of known rank updates running statistics."""
    is_asked = bool(node.attributes.get_int("training_mode", 0))
    return is_asked and types.rank(operand(node, 0)) is not None


def from_means(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The operator by its definition, with means over all axes but the channels.

    A channel of mean ``m`` and variance ``v`` yields
    ``(x - m) / sqrt(v + epsilon) * scale + bias``.
    A running statistic is ``momentum`` of the old one and ``1 - momentum`` of the channel's own.
    Source: ONNX's BatchNormalization, opset 15.
    """
    data, scale, bias, *running = operands(node)
    rank, dtype = types.rank(data), types.dtype(data)
    if rank is None or dtype is None:
        return None
    mean = _mean_of(data, rank, builder)
    apart = builder.op("Sub", [data, mean])
    variance = _mean_of(builder.op("Mul", [apart, apart]), rank, builder)
    epsilon = np.array(node.attributes.get_float("epsilon", 1e-5), dtype.numpy())
    spread = builder.op("Sqrt", [builder.op("Add", [variance, builder.constant(epsilon)])])
    normal = builder.op("Div", [apart, spread])
    scaled = builder.op("Mul", [normal, _by_channel(scale, data, rank, builder)])
    result = builder.op("Add", [scaled, _by_channel(bias, data, rank, builder)])
    momentum = node.attributes.get_float("momentum", 0.9)
    statistics = zip(running, (mean, variance), strict=True)
    updated = [_updated(old, new, momentum, builder) for old, new in statistics]
    return [result, *updated][: len(node.outputs)]


def _mean_of(value: ir.Value, rank: int, builder: Builder) -> ir.Value:
    axes = [axis for axis in range(rank) if axis != 1]
    return builder.op("ReduceMean", [value, builder.ints(*axes)])


def _by_channel(weight: ir.Value, data: ir.Value, rank: int, builder: Builder) -> ir.Value:
    """Return a weight of each channel, beside the pixels of images."""
    wide = builder.op("CastLike", [weight, data])
    pixels = builder.ints(*range(1, rank - 1))
    return builder.op("Unsqueeze", [wide, pixels]) if rank > 2 else wide


def _updated(old: ir.Value, new: ir.Value, momentum: float, builder: Builder) -> ir.Value:
    """Return a running statistic behind one batch."""
    own = builder.op("CastLike", [builder.op("Reshape", [new, builder.ints(-1)]), old])
    parts = [(old, momentum), (own, 1 - momentum)]
    weights = [builder.constant(np.array(share, np.float32)) for _, share in parts]
    shares = [builder.op("CastLike", [weight, old]) for weight in weights]
    weighed = [builder.op("Mul", [x, y]) for (x, _), y in zip(parts, shares, strict=True)]
    return builder.op("Add", weighed)
