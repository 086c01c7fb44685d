"""Operators that move or compare values, in another type that the device has a kernel for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.builder import Builder

__all__ = ["MOVED", "SHORT", "WIDENED", "between_casts", "moved_form"]

_T = ir.DataType
# Types that hold every value of another type, the cheapest first. int64 and uint64 have none.
_WIDER = {
    _T.BOOL: (_T.UINT8, _T.INT32, _T.FLOAT),
    _T.INT8: (_T.INT32, _T.FLOAT),
    _T.UINT8: (_T.INT32, _T.FLOAT),
    _T.INT16: (_T.INT32, _T.FLOAT),
    _T.UINT16: (_T.INT32, _T.FLOAT),
    _T.INT32: (_T.DOUBLE,),
    _T.UINT32: (_T.DOUBLE,),
}


@dataclasses.dataclass(frozen=True)
class _Moved:
    """An operator that moves or compares values: in a wider type it computes the same.

    Attributes:
        inputs: Positions of the inputs that have the type; None for all.
        is_cast_back: Whether the results have the type, too.
    """

    inputs: tuple[int, ...] | None = (0,)
    is_cast_back: bool = True


_MOVING = {
    "Concat": _Moved(None),
    "Expand": _Moved(),
    "Flatten": _Moved(),
    "GatherElements": _Moved(),
    "GatherND": _Moved(),
    "Slice": _Moved(),
    "Split": _Moved(),
    "Squeeze": _Moved(),
    "Tile": _Moved(),
    "Transpose": _Moved(),
}
WIDENED = {
    **_MOVING,
    "ArgMax": _Moved(is_cast_back=False),
    "ArgMin": _Moved(is_cast_back=False),
    "Equal": _Moved((0, 1), is_cast_back=False),
    "NonZero": _Moved(is_cast_back=False),
    "Pad": _Moved((0, 2)),
    "Where": _Moved((1, 2)),
}
"""What computes the same in a wider type."""
SHORT = {
    "CumSum": _Moved(),
    "ReduceMax": _Moved(),
    "ReduceMin": _Moved(),
    "ReduceProd": _Moved(),
    "ScatterElements": _Moved((0, 2)),
    "ScatterND": _Moved((0, 2)),
}
"""What computes in int32 the lower half of what it computes in int64, beside the former."""
MOVED = {**WIDENED, **SHORT}


def moved_form(
    node: ir.Node,
    given: ir.DataType,
    takes: Callable[[ir.Node, ir.DataType], bool],
    builder: Builder,
    *,
    is_short: bool,
    is_there: bool,
) -> list[ir.Value] | None:
    """Record a node of a type without a kernel in another type; None where there is none.

    Args:
        node: A node of one of `MOVED`.
        given: The type that it moves.
        takes: Tells whether the device computes a node with a type.
        builder: Records the nodes.
        is_short: Whether int64 is int32 on the device.
        is_there: Whether the device has the values; they are copied for one node otherwise.
    """
    if is_short and given == _T.INT64:
        if takes(node, _T.INT32):
            return between_casts(node, given, _T.INT32, builder)
        if node.op_type in _MOVING and takes(node, _T.FLOAT):
            return _in_halves(node, given, builder)
        return None
    for wide in _WIDER.get(given, ()) if node.op_type in WIDENED else ():
        if takes(node, wide):
            return between_casts(node, given, wide, builder)
    if is_there and given == _T.INT32 and node.op_type in _MOVING and takes(node, _T.FLOAT):
        halves = (takes(ir.Node("", op, []), given) for op in ("Add", "Div", "Mul", "Sub"))
        return _in_halves(node, given, builder) if all(halves) else None
    return None


def between_casts(
    node: ir.Node, given: ir.DataType, other: ir.DataType, builder: Builder
) -> list[ir.Value]:
    """Record a node of one of `MOVED` in another type, between Casts."""
    moved = MOVED[node.op_type]
    inputs = [
        builder.op("Cast", [value], {"to": other.value})
        if value is not None and (moved.inputs is None or position in moved.inputs)
        else value
        for position, value in enumerate(node.inputs)
    ]
    count = len(node.outputs)
    results = list(builder.node(node.op_type, inputs, node.attributes, outputs=count).outputs)
    if not moved.is_cast_back:
        return results
    if node.op_type == "Transpose" and (order := node.attributes.get_ints("perm")):
        # onnxruntime moves a Transpose behind a Cast, to the type without a kernel; not so here.
        results = [builder.op("Reshape", [results[0], builder.ints(*[0] * len(order))])]
    return [builder.op("Cast", [one], {"to": given.value}) for one in results]


_HALF = 2**16


def _in_halves(node: ir.Node, given: ir.DataType, builder: Builder) -> list[ir.Value]:
    """Move the upper and the lower 16 bits of 32 as floats, which hold them.

    ``-70000`` is ``-1 * 65536 - 4464``: the two floats are moved, and added up behind.
    """
    moved = MOVED[node.op_type]
    size = builder.constant(given.numpy().type(_HALF))
    parts: list[list[ir.Value | None]] = [list(node.inputs), list(node.inputs)]
    for position, value in enumerate(node.inputs):
        if value is None or (moved.inputs is not None and position not in moved.inputs):
            continue
        upper = builder.op("Div", [value, size])
        lower = builder.op("Sub", [value, builder.op("Mul", [upper, size])])
        for inputs, part in zip(parts, (upper, lower), strict=True):
            inputs[position] = builder.op("Cast", [part], {"to": _T.FLOAT.value})
    count = len(node.outputs)
    halves = [
        [
            builder.op("Cast", [one], {"to": given.value})
            for one in builder.node(node.op_type, inputs, node.attributes, outputs=count).outputs
        ]
        for inputs in parts
    ]
    return [
        builder.op("Add", [builder.op("Mul", [upper, size]), lower])
        for upper, lower in zip(*halves, strict=True)
    ]
