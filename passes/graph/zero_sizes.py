"""Reshape to dimensions that are all given, a 0 among them, where Reshape takes a 0 for a copy.

Before opset 14 a 0 in the target of Reshape means the dimension that the operand has there. A
target with a 0 is of no elements: its first 0 is left open as -1, its others are 1 and cut to 0.
``[2, 0, 3, 0]`` is made of nothing by way of ``[2, -1, 3, 1]``, which yields ``[2, 0, 3, 1]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import only_number

__all__ = ["LEAST_OPSET", "to_older_form"]

LEAST_OPSET = 11
"""The first opset that has all operators of the form."""


def to_older_form(node: ir.Node) -> list[ir.Node]:
    """Give a Reshape with ``allowzero`` the form above, and return the nodes that come before it.

    Where all but one of the dimensions are positive constants, that one is a -1.

    Args:
        node: A new node; it yields the same value in its new form. The opset is 11 at least.
    """
    value, target = node.inputs
    assert value is not None and target is not None
    builder = Builder(node.metadata_props.get(ORIGIN_KEY, ""))
    known = _with_one_open(target)
    inputs = [value, builder.ints(*known)] if known is not None else _cut(builder, value, target)
    if len(inputs) > 2:
        node.op_type = "Slice"
    node.resize_inputs(len(inputs))
    for position, one in enumerate(inputs):
        node.replace_input_with(position, one)
    del node.attributes["allowzero"]
    return builder.nodes


def _cut(builder: Builder, value: ir.Value, target: ir.Value) -> list[ir.Value]:
    """Return what a Slice reads that yields the value in its new shape."""
    none, axis = builder.ints(0), builder.scalar(0)
    is_zero = builder.op("Equal", [target, none])
    numbers = builder.op("Cast", [is_zero], {"to": ir.DataType.INT64.value})
    is_new = builder.op("Equal", [builder.op("CumSum", [numbers, axis]), builder.ints(1)])
    is_first = builder.op("And", [is_zero, is_new])
    whole = builder.op("Where", [is_zero, builder.ints(1), target])
    whole = builder.op("Where", [is_first, builder.ints(-1), whole])
    zero = ir.tensor(np.zeros(1, np.int64))
    starts = builder.op("ConstantOfShape", [builder.op("Shape", [target])], {"value": zero})
    return [builder.op("Reshape", [value, whole]), starts, target]


def _with_one_open(target: ir.Value) -> list[int] | None:
    """Return the dimensions, with -1 for the one that is not constant; None if others may be 0."""
    constant = constant_value(target)
    node = target.producer()
    if constant is not None:
        dims: list[int] | None = [int(n) for n in constant]
    elif is_operator(node, "Concat"):
        dims = _parts(node.inputs)
    else:
        return None
    if dims is None or dims.count(-1) > 1 or any(n == 0 for n in dims):
        return None
    return dims


def _parts(values: Sequence[ir.Value | None]) -> list[int] | None:
    dims: list[int] = []
    for value in values:
        constant = None if value is None else constant_value(value)
        if constant is not None:
            dims += [int(n) for n in constant]
        elif value is not None and _is_one_number(value):
            dims.append(-1)
        else:
            return None
    return dims


def _is_one_number(value: ir.Value) -> bool:
    """Whether a vector is proven to have one entry."""
    node = value.producer()
    if is_operator(node, "Gather"):
        places = constant_value(node.inputs[1])
        return places is not None and places.shape == (1,)
    if is_operator(node, "Slice") and len(node.inputs) == 3:
        start, end = (only_number(v) for v in node.inputs[1:])
        return start is not None and end is not None and start >= 0 and end - start == 1
    return False
