"""Forms of single operators that compute the same and that more frontends know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import operand, operands, optional_operand
from passes.runtimes.size_products import product_of_sizes
from passes.typing import Typing
from passes.typing.value_types import is_number

__all__ = ["FORMS", "Form"]

Form = Callable[[ir.Node, Typing, Builder], list[ir.Value] | None]
"""Records the form; gives the new outputs, None where the node stays as it is."""


def _split(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The sizes as an input; ``num_outputs`` is new in opset 18.

    A Split of an open dimension stays: its sizes are computed by the operator itself.
    """
    data = operand(node, 0)
    dims = typing.dims(data)
    axis = node.attributes.get_int("axis", 0)
    if optional_operand(node, 1) is not None or dims is None:
        return None
    size = dims[axis] if -len(dims) <= axis < len(dims) else None
    if not isinstance(size, int):
        return None
    count = len(node.outputs)
    step = -(-size // count)
    sizes = [max(0, min(step, size - step * i)) for i in range(count)]
    made = builder.node("Split", [data, builder.ints(*sizes)], {"axis": axis}, outputs=count)
    return list(made.outputs)


def _constant(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """A tensor in place of numbers or strings."""
    (attribute,) = node.attributes.values()
    name = attribute.name.removesuffix("s")
    dtypes = {"value_int": np.int64, "value_float": np.float32, "value_string": object}
    if attribute.is_ref() or name not in dtypes:
        return None
    return [builder.constant(np.array(attribute.value, dtypes[name]))]


def _reshape(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """No ``allowzero`` where no zero is asked for."""
    target = constant_value(node.inputs[1])
    if not node.attributes.get_int("allowzero", 0) or target is None or 0 in target:
        return None
    return [builder.op("Reshape", node.inputs)]


def _array_feature_extractor(
    node: ir.Node, typing: Typing, builder: Builder
) -> list[ir.Value] | None:
    """A Gather along the last axis."""
    data, places = operands(node)
    dims = typing.dims(data)
    if not dims:
        return None
    flat = builder.op("Reshape", [places, builder.ints(-1)])
    taken = builder.op("Gather", [data, flat], {"axis": len(dims) - 1})
    if len(dims) == 1:
        taken = builder.op("Reshape", [taken, builder.ints(1, -1)])
    return [taken]


def _compress(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """A Gather of the places where the condition holds.

    Not of strings: onnxruntime copies only the first of each row that it gathers.
    """
    data, condition = operands(node)
    axis = node.attributes.get_int("axis")
    if not is_number(typing.dtype(data)):
        return None
    if axis is None:
        data = builder.op("Reshape", [data, builder.ints(-1)])
    places = builder.op("Reshape", [builder.op("NonZero", [condition]), builder.ints(-1)])
    return [builder.op("Gather", [data, places], {"axis": axis or 0})]


def _greater(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The other comparison, of the operands in turn."""
    left, right = operands(node)
    return [builder.op(_TURNED[node.op_type], [right, left])]


_TURNED = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}


def _reduce_sum_square(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The sum of the squares; its axes are an input.

    What no axes mean where they do not mean all of them is read in two ways.
    """
    data, axes = operand(node, 0), optional_operand(node, 1)
    if node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    given = node.attributes.get_ints("axes")
    if given is not None:
        axes = builder.ints(*given)
    operands = [builder.op("Mul", [data, data]), *([] if axes is None else [axes])]
    keepdims = node.attributes.get_int("keepdims", 1)
    return [builder.op("ReduceSum", operands, {"keepdims": keepdims})]


def _resize(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The sizes, or scales, of all axes in place of those of a few."""
    data, axes = operand(node, 0), node.attributes.get_ints("axes")
    rank = typing.rank(data)
    mode = node.attributes.get_string("coordinate_transformation_mode", "")
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    if axes is None or rank is None or _needs_axes(mode, policy):
        return None
    scales, sizes = optional_operand(node, 2), optional_operand(node, 3)
    places = [axis % rank for axis in axes]
    if scales is not None:
        scales = _spread(builder, scales, places, [builder.constant(_ONE)] * rank)
    if sizes is not None:
        shape = builder.op("Shape", [data])
        others = [builder.op("Gather", [shape, builder.ints(i)]) for i in range(rank)]
        sizes = _spread(builder, sizes, places, others)
    left = {name: a for name, a in node.attributes.items() if name not in _OF_AXES}
    return [builder.op("Resize", [data, None, scales, sizes], left)]


_ONE = np.ones(1, np.float32)
_OF_AXES = ("axes", "keep_aspect_ratio_policy")


def _needs_axes(mode: str | None, policy: str | None) -> bool:
    """Whether a region is cut out, or axes that keep their size would have a say."""
    return mode == "tf_crop_and_resize" or policy != "stretch"


def _spread(
    builder: Builder, numbers: ir.Value, places: list[int], others: list[ir.Value]
) -> ir.Value:
    """Put numbers at their places among those of the other axes."""
    parts = list(others)
    for i, place in enumerate(places):
        parts[place] = builder.op("Gather", [numbers, builder.ints(i)])
    return builder.op("Concat", parts, {"axis": 0})


def _affine_grid(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """Grids of images, ``[N, H, W, 2]``, as arithmetic on their places; those of volumes stay.

    Its definition as a function decides by an If between images and volumes, and a branch of it is
    not valid for the other.
    """
    theta, size = operand(node, 0), operand(node, 1)
    dtype = typing.dtype(theta)
    if typing.static_dims(size) != (4,) or dtype is None:
        return None
    is_aligned = bool(node.attributes.get_int("align_corners", 0))
    column, row = (_steps(builder, size, axis, dtype, is_aligned) for axis in (3, 2))
    row = builder.op("Unsqueeze", [row, builder.ints(1)])
    factors = [builder.op("Gather", [theta, builder.scalar(i)], {"axis": 2}) for i in range(3)]
    x, y, shift = (builder.op("Unsqueeze", [one, builder.ints(1, 2)]) for one in factors)
    along = builder.op("Add", [builder.op("Mul", [x, column]), builder.op("Mul", [y, row])])
    return [builder.op("Add", [along, shift])]


def _steps(
    builder: Builder, size: ir.Value, axis: int, dtype: ir.DataType, is_aligned: bool
) -> ir.Value:
    """Return the places along an axis, from -1 to 1, ``[n, 1]``."""

    def number(value: float) -> ir.Value:
        return builder.constant(np.array(value, dtype.numpy()))

    count = builder.op("Gather", [size, builder.scalar(axis)], {"axis": 0})
    places = builder.arange(count)
    places, total = (builder.op("Cast", [v], {"to": int(dtype)}) for v in (places, count))
    double = builder.op("Mul", [places, number(2)])
    if is_aligned:
        # The one place of a single one is the last, 1.
        total = builder.op("Sub", [total, number(1)])
        least = builder.op("Max", [total, number(1)])
        first = builder.op("Sub", [builder.op("Sub", [least, total]), number(0.5)])
        start = builder.op("Mul", [first, number(2)])
        steps = builder.op("Add", [builder.op("Div", [double, least]), start])
    else:
        middle = builder.op("Add", [double, number(1)])
        steps = builder.op("Sub", [builder.op("Div", [middle, total]), number(1)])
    return builder.op("Unsqueeze", [steps, builder.ints(1)])


FORMS: Mapping[tuple[str, str], Form] = {
    ("", "AffineGrid"): _affine_grid,
    ("", "Compress"): _compress,
    ("", "Constant"): _constant,
    ("", "Greater"): _greater,
    ("", "GreaterOrEqual"): _greater,
    ("", "ReduceProd"): product_of_sizes,
    ("", "ReduceSumSquare"): _reduce_sum_square,
    ("", "Reshape"): _reshape,
    ("", "Resize"): _resize,
    ("", "Split"): _split,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): _array_feature_extractor,
}
