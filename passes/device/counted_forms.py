"""Sizes, places and quotients that a device tells by what it has kernels for.

A device without a kernel for Size or NonZero is not asked: the whole tensor is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.batching.flat.formula import Formula
from passes.batching.operators import Operators
from passes.device.exact_forms import PLACING, Needs, kept_places
from passes.graph.made import made_by, operand
from passes.typing import Typing

__all__ = ["COUNTED"]

_T = ir.DataType
_Counted = Callable[[ir.Node, Typing, Operators], list[ir.Value] | None]


def _size(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """The length of a vector, which Shape leaves on the host."""
    data = operand(node, 0)
    if typing.rank(data) != 1:
        return None
    return [ops.op("Gather", [ops.op("Shape", [data]), ops.builder.scalar(0)], {"axis": 0})]


def _places(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """The places of what is not zero, a row for each axis.

    The places of all elements in one row are divided by the sizes of the axes, the last first.
    """
    data = operand(node, 0)
    rank = typing.rank(data)
    if not rank:
        return None
    flags = data
    if typing.dtype(data) != _T.BOOL:
        flags = ops.op("Cast", [data], {"to": _T.BOOL.value})
    flags = ops.op("Cast", [flags], {"to": _T.INT32.value})
    if rank > 1:
        flags = ops.op("Reshape", [flags, ops.ints(-1)])
    rest, places = kept_places(flags, ops), list[ir.Value]()
    one = ops.builder.constant(np.ones(1, np.int32))
    for axis in reversed(range(1, rank)):
        size = ops.op("Cast", [ops.shape(data, axis, axis + 1)], {"to": _T.INT32.value})
        size = ops.op("Max", [size, one])  # nothing is divided by 0 where there are no elements
        whole = ops.op("Div", [rest, size])
        places.append(ops.op("Sub", [rest, ops.op("Mul", [whole, size])]))
        rest = whole
    rows = [ops.unsqueeze(row, [0]) for row in (rest, *reversed(places))]
    joined = ops.op("Concat", rows, {"axis": 0}) if rank > 1 else rows[0]
    return [ops.op("Cast", [joined], {"to": _T.INT64.value})]


def _upwards(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """A quotient of whole numbers that is rounded up, without the doubles that it goes through.

    It is 1 more than the quotient without its fraction where the rest has the divisor's sign: 7 by
    3 is 3, -7 by 3 is -2. Up to 2^53 the doubles hold each number.
    """
    quotient = made_by(node.inputs[0], "Ceil")
    divided = None if quotient is None else made_by(quotient.inputs[0], "Div")
    casts = [made_by(value, "Cast") for value in divided.inputs] if divided is not None else []
    given = [operand(cast, 0) for cast in casts if cast is not None]
    if len(given) != 2 or node.attributes.get_int("to", 0) != _T.INT64:
        return None
    dtypes = [typing.dtype(value) for value in given]
    is_exact = typing.dtype(operand(node, 0)) == _T.DOUBLE
    if not is_exact or any(dtype not in (_T.INT32, _T.INT64) for dtype in dtypes):
        return None
    x, by = (
        Formula(ops, value, dtype or _T.INT64).cast(_T.INT64)
        for value, dtype in zip(given, dtypes, strict=True)
    )
    by = by.compare("Equal", 0).where(1, by)  # what is divided by 0 ends the process of a host
    whole = x / by
    rest = x - whole * by
    ahead = by.compare("Less", 0).where(0 - rest, rest)
    return [(whole + ahead.compare("Greater", 0).cast(_T.INT64)).value]


_UPWARDS = ("Add", "Div", "Equal", "Greater", "Less", "Mul", "Sub", "Where")
COUNTED: Mapping[str, tuple[_Counted, Needs]] = {
    "Cast": (_upwards, tuple((op, _T.INT64) for op in _UPWARDS)),
    # The host computes with what it yields where the device has no int64.
    "NonZero": (
        _places,
        (("Add", _T.INT64), ("Gather", _T.INT32), *((op, _T.INT32) for op in ("Div", *PLACING))),
    ),
    "Size": (_size, (("Cast", None), ("Shape", _T.FLOAT))),
}
"""Forms that need the ranks of operands, and the kernels of these forms."""
