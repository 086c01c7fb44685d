"""Sizes and places that a device tells by what it has kernels for.

A device without a kernel for Size or NonZero is not asked: the whole tensor is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.exact_forms import PLACING, Needs, kept_places
from passes.graph.made import operand
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


COUNTED: Mapping[str, tuple[_Counted, Needs]] = {
    # The host computes with what it yields where the device has no int64.
    "NonZero": (
        _places,
        (("Add", _T.INT64), ("Gather", _T.INT32), *((op, _T.INT32) for op in ("Div", *PLACING))),
    ),
    "Size": (_size, (("Cast", None), ("Shape", _T.FLOAT))),
}
"""Forms that need the ranks of operands, and the kernels of these forms."""
