"""Forms of arithmetic that some devices lack: remainders, rounding, flags."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.flat.formula import Formula
from passes.batching.operators import Operators
from passes.graph.made import operand

__all__ = [
    "differing",
    "either",
    "remainder",
    "rounded",
    "same_flags",
]

_T = ir.DataType
_SIGNED = frozenset({_T.INT32, _T.INT64})
_WHOLE = _SIGNED | {_T.UINT32, _T.UINT64}


def either(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Not both of the opposites."""
    neither = ops.op("And", [ops.op("Not", [operand(node, i)]) for i in range(2)])
    return [ops.op("Not", [neither])]


def differing(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """One of two flags without the other."""
    flags = [operand(node, i) for i in range(2)]
    alone = [
        ops.op("And", [one, ops.op("Not", [other])]) for one, other in (flags, reversed(flags))
    ]
    neither = ops.op("And", [ops.op("Not", [one]) for one in alone])
    return [ops.op("Not", [neither])]


def same_flags(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """Flags and themselves, where they cannot be copied as they are."""
    return [ops.op("And", [operand(node, 0)] * 2)] if dtype == _T.BOOL else None


def remainder(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """What a quotient without its fraction leaves; moved to the sign of the divisor, if asked.

    Of -7 by 3 the quotient is -2, which leaves -1, and 3 more is 2.
    """
    if dtype not in _WHOLE:
        return None
    x, by = (Formula(ops, operand(node, i), dtype) for i in range(2))
    rest = x - x / by * by
    if dtype not in _SIGNED or node.attributes.get_int("fmod", 0) == 1:
        return [rest.value]
    moved = rest + by
    under = rest.compare("Greater", 0).where(moved, rest)
    over = rest.compare("Less", 0).where(moved, rest)
    return [by.compare("Less", 0).where(under, over).value]


def rounded(node: ir.Node, dtype: ir.DataType, ops: Operators) -> list[ir.Value] | None:
    """The whole number below and 1 more, if the rest is above a half or the number is odd then."""
    if dtype not in (_T.FLOAT, _T.FLOAT16, _T.DOUBLE):
        return None
    x = Formula(ops, operand(node, 0), dtype)
    below = x.floor()
    rest, is_odd = x - below, below - (below * 0.5).floor() * 2.0
    half = rest.compare("Equal", 0.5).where(is_odd, 0.0)
    return [(below + rest.compare("Greater", 0.5).where(1.0, half)).value]
