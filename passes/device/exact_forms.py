"""Forms for integers that no wider type of a device holds: they are moved, never cast.

ConstantOfShape, which devices have for few types, is here, too.

``device_forms`` casts what an operator moves or compares; 64-bit integers have nowhere to go. What
goes through the operator in their place are their positions, or flags.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.arithmetic_forms import differing, either, remainder, rounded, same_flags
from passes.device.sorted_unique import sorted_unique
from passes.graph.builder import END
from passes.graph.graphs import constant_value
from passes.graph.made import operand

__all__ = ["EXACT", "PLACING", "ExactForm", "Needs", "kept_places"]

Needs = tuple[tuple[str, ir.DataType | None], ...]
"""Kernels: an operator and what it computes with, None for the type of the node."""

_T = ir.DataType


@dataclasses.dataclass(frozen=True)
class ExactForm:
    """How an operator is written by others.

    Attributes:
        write: Records the form of a node that computes with a type; None where the node stays.
        needs: The kernels of the form.
        since: The first opset that has all operators of the form.
    """

    write: Callable[[ir.Node, ir.DataType, Operators], list[ir.Value] | None]
    needs: Needs
    since: int


def _pad(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Pad the positions of the elements, and gather the elements by them.

    Position 0 is the value that is padded with: ``[7, 8]`` padded by one 5 in front has the
    positions ``[1, 2]``, padded ``[0, 1, 2]``, and reads ``[5, 7, 8]`` there. Positions go as
    doubles, exact below ``2**53``.
    """
    data, pads, value, axes = [*node.inputs, None, None][:4]
    value = value or ops.builder.constant(np.zeros((), dtype.numpy()))
    flat = ops.op("Reshape", [data, ops.ints(-1)])
    values = ops.op("Concat", [ops.op("Reshape", [value, ops.ints(1)]), flat], {"axis": 0})
    one = ops.builder.scalar(1)
    numbers = ops.op("Range", [one, ops.op("Add", [ops.op("Size", [data]), one]), one])
    placed = ops.reshape(numbers, ops.op("Shape", [data]))
    wide = ops.op("Cast", [placed], {"to": _T.DOUBLE.value})
    inputs = [wide, pads] if axes is None else [wide, pads, None, axes]
    padded = ops.op("Cast", [ops.op("Pad", inputs, node.attributes)], {"to": _T.INT64.value})
    return [ops.op("Gather", [values, padded], {"axis": 0})]


def _extreme_place(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Find the extreme value, then the first place that holds it."""
    if node.attributes.get_int("select_last_index", 0):
        return None
    data, axis = operand(node, 0), node.attributes.get_int("axis", 0)
    attributes = {"axis": axis, "largest": int(node.op_type == "ArgMax")}
    extreme = ops.builder.node("TopK", [data, ops.ints(1)], attributes, outputs=2).outputs[0]
    holds = ops.op("Equal", [data, extreme])
    flags = ops.op("Cast", [holds], {"to": _T.FLOAT.value})
    return [ops.op("ArgMax", [flags], node.attributes)]


def _filled(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Expand the number that a tensor is filled with."""
    value = node.attributes.get_tensor("value")
    number = np.zeros((), dtype.numpy()) if value is None else value.numpy().reshape(())
    return [ops.op("Expand", [ops.builder.constant(number), operand(node, 0)])]


_WHOLE = frozenset({_T.INT8, _T.INT16, _T.INT32, _T.INT64})
_FLOATS = frozenset({_T.FLOAT, _T.FLOAT16, _T.DOUBLE})


def _absolute(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    negative = _negative(node, dtype, ops)
    return None if negative is None else [ops.op("Max", [operand(node, 0), *negative])]


def _negative(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    if dtype not in _WHOLE:
        return None
    return [ops.op("Sub", [ops.builder.constant(dtype.numpy().type(0)), operand(node, 0)])]


def _sign(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Subtract whether a number is below zero from whether it is above; NaN is no number."""
    if dtype not in _WHOLE | _FLOATS:
        return None
    x, zero = operand(node, 0), ops.builder.constant(dtype.numpy().type(0))
    flags = (ops.op(op, [x, zero]) for op in ("Greater", "Less"))
    sign = ops.op("Sub", [ops.op("Cast", [one], {"to": dtype.value}) for one in flags])
    if dtype in _WHOLE:
        return [sign]
    return [ops.op("Where", [ops.op("Equal", [x, x]), sign, x])]


_STEPS = 31
"""Devices that are asked have no axis of 2^31 places."""


def _running_sum(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Add what stands 1, 2, 4, ... places in front, in as many steps as a length has bits.

    ``[1, 1, 1, 1]`` becomes ``[1, 2, 2, 2]`` and then ``[1, 2, 3, 4]``. Floats would round
    otherwise than in their order.
    """
    x, axis = operand(node, 0), constant_value(operand(node, 1))
    if dtype not in (_T.INT32, _T.INT64) or axis is None:
        return None
    place = int(axis.reshape(()))
    is_reversed = bool(node.attributes.get_int("reverse", 0))
    count = ops.shape(x, place, END if place == -1 else place + 1)
    shifts = ops.op("Min", [ops.ints(*(2**step for step in range(_STEPS))), count])
    starts = shifts if is_reversed else ops.op("Sub", [count, shifts])
    bounds = [_parts(one, ops) for one in (starts, ops.op("Add", [starts, count]))]
    nothing, total = ops.op("Sub", [x, x]), x
    for start, end in zip(*bounds, strict=True):
        pair = [total, nothing] if is_reversed else [nothing, total]
        both = ops.op("Concat", pair, {"axis": place})
        shifted = ops.op("Slice", [both, start, end, ops.ints(place)])
        total = ops.op("Add", [total, shifted])
    return [ops.op("Sub", [total, x]) if node.attributes.get_int("exclusive", 0) else total]


def _kept(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Gather the places of what is kept."""
    data, condition = operand(node, 0), operand(node, 1)
    axis = node.attributes.get_int("axis")
    if axis is None:
        data = ops.op("Reshape", [data, ops.ints(-1)])
    flags = ops.op("Cast", [condition], {"to": _T.INT32.value})
    return [ops.op("Gather", [data, kept_places(flags, ops)], {"axis": axis or 0})]


def kept_places(flags: ir.Value, ops: Operators) -> ir.Value:
    """Record the places that are 1 in a vector of 0 and 1, in their order; all are int32.

    Each place is written to the number of kept ones in front. Of ``[1, 0, 1]`` the places 0 and
    2 go to 0 and 1, and 1 behind all, where none is read.
    """
    zero, one = (ops.builder.constant(np.array(n, np.int32)) for n in (0, 1))
    spare = ops.builder.constant(np.zeros(1, np.int32))
    below = ops.op("CumSum", [flags, zero])
    to = ops.op("Sub", [ops.op("Mul", [below, flags]), one])
    numbers = ops.op("CumSum", [ops.op("Max", [flags, one]), zero])
    room = ops.op("Concat", [flags, spare], {"axis": 0})
    placed = ops.op("ScatterElements", [room, to, ops.op("Sub", [numbers, one])], {"axis": 0})
    count = ops.op("ReduceSum", [flags, ops.ints(0)], {"keepdims": 0})
    return ops.op("Gather", [placed, ops.op("Range", [zero, count, one])], {"axis": 0})


def _parts(numbers: ir.Value, ops: Operators) -> list[ir.Value]:
    """Return each number of a vector as a vector."""
    inputs = [numbers, ops.ints(*[1] * _STEPS)]
    return list(ops.builder.node("Split", inputs, {"axis": 0}, outputs=_STEPS).outputs)


_EXTREME = ExactForm(
    _extreme_place, (("TopK", None), ("Equal", None), ("ArgMax", _T.FLOAT)), since=12
)
PLACING = ("Concat", "CumSum", "Max", "Mul", "Range", "ReduceSum", "ScatterElements", "Sub")
"""What `kept_places` computes with."""
EXACT: Mapping[str, ExactForm] = {
    "Abs": ExactForm(_absolute, (("Max", None), ("Sub", None)), since=14),
    "Neg": ExactForm(_negative, (("Sub", None),), since=14),
    "Sign": ExactForm(
        _sign, tuple((op, None) for op in ("Equal", "Greater", "Less", "Sub", "Where")), since=14
    ),
    "ArgMax": _EXTREME,
    "ArgMin": _EXTREME,
    "CumSum": ExactForm(
        _running_sum, tuple((op, None) for op in ("Add", "Concat", "Slice", "Sub")), since=13
    ),
    "ConstantOfShape": ExactForm(_filled, (("Expand", None),), since=9),
    "Compress": ExactForm(
        _kept, (("Gather", None), *((op, _T.INT32) for op in PLACING)), since=13
    ),
    "Identity": ExactForm(same_flags, (("And", None),), since=7),
    "Mod": ExactForm(
        remainder,
        tuple((op, None) for op in ("Add", "Div", "Greater", "Less", "Mul", "Sub", "Where")),
        since=10,
    ),
    "Or": ExactForm(either, (("And", None), ("Not", None)), since=7),
    "Pad": ExactForm(_pad, (("Gather", None), ("Range", _T.INT64), ("Pad", _T.DOUBLE)), since=13),
    "Round": ExactForm(
        rounded,
        tuple((op, None) for op in ("Add", "Equal", "Floor", "Greater", "Mul", "Sub", "Where")),
        since=11,
    ),
    "Unique": ExactForm(
        sorted_unique, (("TopK", None), ("NonZero", _T.BOOL), ("CumSum", _T.INT64)), since=13
    ),
    "Xor": ExactForm(differing, (("And", None), ("Not", None)), since=7),
}
