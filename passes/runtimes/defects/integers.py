"""Comparisons, divisions and casts of integers that a runtime gets wrong.

The vectorised kernels of onnxruntime compare the lower halves of two numbers as signed where the
upper halves are equal: 2^31 counts as less than 0. Less and Greater are right. IREE casts floats
to bytes as if bytes had a sign.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands, optional_operand
from passes.runtimes.defects.reshapes import from_front
from passes.runtimes.defects.small_numbers import is_small
from passes.runtimes.types import Types

__all__ = [
    "by_way_of_integers",
    "clipped",
    "compared",
    "divided_one_by_one",
    "divides_nothing",
    "extremum",
    "is_at_risk",
    "is_byte_of_a_float",
    "signs",
]

_INTEGERS_COMPARED = 12
_INTEGERS = frozenset(dtype for dtype in ir.DataType if dtype.is_integer())


def is_at_risk(node: ir.Node, types: Types) -> bool:
    """Whether a node compares int64 numbers that may be beyond 32 bits.

    Counts of what a model holds in memory, and what is computed of them, are taken to be within.
    Before opset 12 there is no Max and Min of integers at all.
    """
    if node.op_type in ("Max", "Min") and types.opset < _INTEGERS_COMPARED:
        return types.dtype(operand(node, 0)) in _INTEGERS
    values = node.inputs if node.op_type in ("Max", "Min", "Clip") else node.inputs[:1]
    far = 0
    for value in values:
        if value is None or is_small(value, types):
            continue
        number = constant_value(value)
        if number is None or number.size != 1 or number.dtype != np.int64:
            break
        if -1 <= int(number.item()) >> 32 <= 0:
            break
        far += 1
    else:
        if far < 2:
            return False
    return types.dtype(operand(node, 0)) == ir.DataType.INT64


def compared(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """Max or Min as a choice by Less."""
    first, *rest = operands(node)
    result = first
    for other in rest:
        result = _larger(builder, result, other, is_max=node.op_type == "Max")
    return [result] if rest else None


def clipped(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """Clip as two choices by Less; the upper bound wins where they cross."""
    result = operand(node, 0)
    for bound, is_max in zip(node.inputs[1:3], (True, False), strict=False):
        if bound is not None:
            result = _larger(builder, result, bound, is_max=is_max)
    return None if result is node.inputs[0] else [result]


def _larger(builder: Builder, one: ir.Value, other: ir.Value, *, is_max: bool) -> ir.Value:
    is_less = builder.op("Less", [one, other])
    return builder.op("Where", [is_less, *((other, one) if is_max else (one, other))])


def signs(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """Sign as the difference of two comparisons with 0."""
    zero = builder.scalar(0)
    sides = ([zero, node.inputs[0]], [node.inputs[0], zero])
    above, below = (
        builder.op("Cast", [builder.op("Less", side)], {"to": ir.DataType.INT64}) for side in sides
    )
    return [builder.op("Sub", [above, below])]


def extremum(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """ReduceMax or ReduceMin of what TopK leaves: at most one number along each axis."""
    data = operand(node, 0)
    axes = _axes(node, types.rank(data))
    if not axes or made_by(data, "TopK") is not None or not types.is_rank_kept(data):
        return None
    for axis in axes:
        count = builder.ints(1)
        if not _has_some(data, axis, types):
            size = builder.op("Gather", [builder.op("Shape", [data]), builder.ints(axis)])
            count = builder.op("Min", [size, count])
        options = {"axis": axis, "largest": int(node.op_type == "ReduceMax")}
        data = builder.node("TopK", [data, count], options, outputs=2).outputs[0]
    return [builder.op(node.op_type, [data, *node.inputs[1:]], node.attributes)]


def _has_some(data: ir.Value, axis: int, types: Types) -> bool:
    """Whether an axis surely has a size of 1 or more: its own, or that of a part of it."""
    if not types.may_be_empty(data, slice(axis, axis + 1)):
        return True
    joined = made_by(data, "Concat")
    rank = types.rank(data)
    if (
        joined is None
        or rank is None
        or from_front([joined.attributes["axis"].as_int()], rank) != [axis]
    ):
        return False
    return any(_has_some(part, axis, types) for part in operands(joined))


def _axes(node: ir.Node, rank: int | None) -> list[int] | None:
    """Return the axes of a reduction, none if it reduces nothing; None if they are not known."""
    given = optional_operand(node, 1)
    axes = node.attributes.get_ints("axes") if given is None else constant_value(given)
    if rank is None or (given is not None and axes is None):
        return None
    if axes is None or not len(axes):
        return [] if node.attributes.get_int("noop_with_empty_axes", 0) else list(range(rank))
    return from_front(axes, rank)


def divides_nothing(node: ir.Node, types: Types) -> bool:
    """Whether integers are divided by numbers with a 0 perhaps, and there may be no integers."""
    data, divisor = operands(node)
    if _has_no_zero(divisor) or _is_as_large(divisor, data):
        return False
    dims = types.dims(data)
    if types.dtype(data) not in _INTEGERS or not types.may_be_empty(data):
        return False
    return dims is None or dims != types.dims(divisor)


def _is_as_large(value: ir.Value, other: ir.Value) -> bool:
    """Whether a value is expanded to the shape of another one."""
    made = made_by(value, "Expand")
    shape = None if made is None else made_by(made.inputs[1], "Shape")
    return shape is not None and shape.inputs[0] is other


def _has_no_zero(divisor: ir.Value) -> bool:
    """Whether no number of a constant, or of a greatest of it and others, is 0 or less."""
    known, made = constant_value(divisor), made_by(divisor, "Max")
    if known is not None:
        return bool((known != 0).all())
    parts = () if made is None else made.inputs
    found = [constant_value(part) for part in parts]
    return any(array is not None and bool((array > 0).all()) for array in found)


def divided_one_by_one(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value]:
    """The divisors as often as there are numbers: of no numbers there are none."""
    data, divisor = operands(node)
    shape = builder.op("Shape", [data])
    divisors = builder.op("Expand", [divisor, shape])
    return [builder.op(node.op_type, [data, divisors], node.attributes)]


def is_byte_of_a_float(node: ir.Node, types: Types) -> bool:
    """Whether a Cast makes an integer of 8 bits without a sign of a float."""
    value = node.inputs[0]
    dtype = None if value is None else types.dtype(value)
    is_float = dtype is not None and dtype.is_floating_point()
    return is_float and node.attributes.get_int("to", 0) == int(ir.DataType.UINT8)


def by_way_of_integers(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """An integer of 32 bits in between: what fits into a byte is the same."""
    whole = builder.op("Cast", [node.inputs[0]], {"to": int(ir.DataType.INT32)})
    return [builder.op("Cast", [whole], {"to": int(ir.DataType.UINT8)})]
