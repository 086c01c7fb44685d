"""Branches: onnxruntime allocates what they yield by sizes that its kernels do not make."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import operand, optional_operand
from passes.runtimes.types import Types
from passes.typing.kernel_sizes import resized_size, window_counts

__all__ = ["POOLS", "behind_a_cut", "is_of_another_size"]

POOLS = ("AveragePool", "LpPool", "MaxPool")
_SCALES = 2
_MENDED_POOLS = 22
"""The opset whose inference counts no window that begins behind what is pooled."""
_FAR = 1 << 31
"""A place behind the end of any axis."""


def is_of_another_size(node: ir.Node, types: Types) -> bool:
    """Whether a node in a branch has a known size that is not the one that inference finds."""
    dims = types.dims(operand(node, 0))
    if dims is None or not types.is_in_branch(node):
        return False
    if node.op_type == "Resize":
        return _is_rounded(node, dims)
    return types.opset < _MENDED_POOLS and _rounds_up(node, dims[2:])


def _is_rounded(node: ir.Node, dims: Sequence[int | str | None]) -> bool:
    """Whether floats and doubles make two sizes of a Resize."""
    scales = constant_value(optional_operand(node, _SCALES))
    if scales is None:
        return False
    axes = node.attributes.get_ints("axes", None) or range(len(dims))
    sides = [dims[axis] for axis in axes if -len(dims) <= axis < len(dims)]
    pairs = zip(sides, scales.reshape(-1).tolist(), strict=False)
    return any(
        isinstance(side, int) and resized_size(side, scale) is None for side, scale in pairs
    )


def _rounds_up(node: ir.Node, sides: Sequence[int | str | None]) -> bool:
    """Whether the last window of a pool begins behind what it pools: the kernel makes none."""
    attributes, count = node.attributes, len(sides)
    is_evened = attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    if not attributes.get_int("ceil_mode", 0) or is_evened:
        return False
    ones = [1] * count
    kernel = attributes.get_ints("kernel_shape", ones)
    steps, dilations = (attributes.get_ints(name, ones) for name in ("strides", "dilations"))
    pads = attributes.get_ints("pads", [0] * (2 * count))
    for at, side in enumerate(sides):
        if not isinstance(side, int):
            continue
        reach = (kernel[at] - 1) * dilations[at] + 1
        inferred, made = window_counts(side, pads[at], pads[count + at], reach, steps[at])
        if made < inferred:
            return True
    return False


def behind_a_cut(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same of a tensor whose sizes no inference knows.

    It is cut at a place behind its end to which is added how many of no elements are not 0.
    """
    data = operand(node, 0)
    rank = types.rank(data)
    assert rank is not None
    zero = builder.ints(0)
    nothing = builder.op("Slice", [data, zero, zero, zero])
    nothing = builder.op("Cast", [nothing], {"to": ir.DataType.FLOAT})
    count = builder.op("Size", [builder.op("NonZero", [nothing])])
    ends = builder.op("Add", [builder.ints(*[_FAR] * rank), count])
    cut = builder.op("Slice", [data, builder.ints(*[0] * rank), ends])
    outputs = len(node.outputs)
    made = builder.node(node.op_type, [cut, *node.inputs[1:]], node.attributes, outputs=outputs)
    return list(made.outputs)
