"""Forms of single operators that compute the same and that more frontends know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value
from passes.typing import Typing

__all__ = ["FORMS", "Form"]

Form = Callable[[ir.Node, Typing, Builder], list[ir.Value] | None]
"""Records the form; gives the new outputs, None where the node stays as it is."""

# A product of more numbers than this stays one node.
_FACTORS = 4
_INT64 = ir.DataType.INT64


def _split(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The sizes as an input; ``num_outputs`` is new in opset 18.

    A Split of an open dimension stays: its sizes are computed by the operator itself.
    """
    data = node.inputs[0]
    dims = None if data is None else typing.dims(data)
    axis = node.attributes.get_int("axis", 0) or 0
    if _input(node, 1) is not None or data is None or dims is None:
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


def _reduce_prod(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The product of a few sizes, by Mul."""
    data = node.inputs[0]
    dims = None if data is None else typing.dims(data)
    if data is None or typing.dtype(data) != _INT64 or dims is None or len(dims) != 1:
        return None
    (count,) = dims
    if not isinstance(count, int) or not 0 < count <= _FACTORS or not _is_over_all(node):
        return None
    keeps = node.attributes.get_int("keepdims", 1)
    places = [builder.ints(i) if keeps else builder.scalar(i) for i in range(count)]
    factors = [builder.op("Gather", [data, place], {"axis": 0}) for place in places]
    product = factors[0]
    for factor in factors[1:]:
        product = builder.op("Mul", [product, factor])
    return [product]


def _is_over_all(node: ir.Node) -> bool:
    """Whether a reduction of a vector is over its axis."""
    given = _input(node, 1)
    axes = node.attributes.get_ints("axes") if given is None else constant_value(given)
    if given is not None and axes is None:
        return False
    if axes is None or len(axes) == 0:
        return not node.attributes.get_int("noop_with_empty_axes", 0)
    return True


def _array_feature_extractor(
    node: ir.Node, typing: Typing, builder: Builder
) -> list[ir.Value] | None:
    """A Gather along the last axis."""
    data, places = node.inputs
    dims = None if data is None else typing.dims(data)
    if data is None or not dims:
        return None
    flat = builder.op("Reshape", [places, builder.ints(-1)])
    taken = builder.op("Gather", [data, flat], {"axis": len(dims) - 1})
    if len(dims) == 1:
        taken = builder.op("Reshape", [taken, builder.ints(1, -1)])
    return [taken]


def _compress(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """A Gather of the places where the condition holds."""
    data, condition = node.inputs
    axis = node.attributes.get_int("axis")
    if axis is None:
        data = builder.op("Reshape", [data, builder.ints(-1)])
    places = builder.op("Reshape", [builder.op("NonZero", [condition]), builder.ints(-1)])
    return [builder.op("Gather", [data, places], {"axis": axis or 0})]


def _input(node: ir.Node, position: int) -> ir.Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


FORMS: Mapping[tuple[str, str], Form] = {
    ("", "Compress"): _compress,
    ("", "Constant"): _constant,
    ("", "ReduceProd"): _reduce_prod,
    ("", "Reshape"): _reshape,
    ("", "Split"): _split,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): _array_feature_extractor,
}
