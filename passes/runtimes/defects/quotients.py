"""Quotients of floats that a runtime does not round as IEEE 754 asks.

OpenVINO and tract multiply by the reciprocal, which rounds twice: one quotient of four is off by
its last bit. Where it tells which pixel is read, or how much it weighs, a result is another grey
level.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator, makers
from passes.graph.made import made_by, operand, operands
from passes.runtimes.types import Types

__all__ = ["is_of_whole_numbers", "rounded_once"]

_ARITHMETIC = frozenset(
    (
        *("Abs", "Add", "Ceil", "Concat", "CumSum", "Div", "Floor", "Max", "Min", "Mul", "Neg"),
        *("Reciprocal", "ReduceMax", "ReduceMin", "ReduceSum", "Reshape", "Squeeze", "Sub"),
        *("Unsqueeze", "Where"),
    )
)
_WHOLE = frozenset({ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64})
_HALF = 2.0**12 + 1.0
"""By it a float32 is cut in two halves, of 12 bits each."""


def is_of_whole_numbers(node: ir.Node, types: Types) -> bool:
    """Whether float32 numbers that are computed of sizes and places alone are divided.

    There are few of them, and what they tell is looked up or counted. All others are divided as
    they are: a pixel, say, is not worth twenty operators.
    """
    of, by = (operand(node, at) for at in range(2))
    if types.dtype(of) != ir.DataType.FLOAT or _is_flag(of, types) or _are_powers_of_2(by):
        return False
    return all(_is_of_whole_numbers(value, types) for value in (of, by))


def _is_flag(value: ir.Value, types: Types) -> bool:
    """Whether numbers are 0 or 1, whose product by a reciprocal is exact."""
    numbers, cast = constant_value(value), made_by(value, "Cast")
    if numbers is not None:
        return bool(np.all((numbers == 0) | (numbers == 1)))
    return cast is not None and types.dtype(operand(cast, 0)) == ir.DataType.BOOL


def _are_powers_of_2(value: ir.Value) -> bool:
    """Whether the reciprocals of some numbers, and the products by them, are exact."""
    numbers = constant_value(value)
    return numbers is not None and bool(np.all(np.abs(np.frexp(numbers)[0]) == 0.5))


def _is_of_whole_numbers(value: ir.Value, types: Types) -> bool:
    return _is_made(value) and all(_is_known(node, types) for node in makers(value, _ARITHMETIC))


def _is_made(value: ir.Value) -> bool:
    """Whether a value is no input."""
    return value.producer() is not None or (value.is_initializer() and not value.is_graph_input())


def _is_known(node: ir.Node, types: Types) -> bool:
    """Whether a node makes numbers of such ones, or of integers."""
    if is_operator(node, "Constant") or all(types.dtype(made) in _WHOLE for made in node.outputs):
        return True
    if is_operator(node, "Cast"):
        return types.dtype(operand(node, 0)) in _WHOLE
    return is_operator(node, _ARITHMETIC) and all(map(_is_made, operands(node)))


def rounded_once(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The quotient by the reciprocal, or its neighbour where that leaves less.

    What a quotient leaves of the dividend is computed without any rounding (Dekker's product of
    halves). What is infinite or NaN leaves NaN, and stays.
    """
    of, by = (operand(node, at) for at in range(2))
    inverse = builder.op("Reciprocal", [by])
    quotient = builder.op("Mul", [of, inverse])
    rest = _rest(builder, of, quotient, by)
    # A bit more than it is, so that the neighbour is asked wherever it may be nearer.
    step = builder.op("Mul", [rest, builder.op("Mul", [inverse, _number(builder, 1 + 2.0**-20)])])
    neighbour = builder.op("Add", [quotient, step])
    taken = builder.op("Mul", [builder.op("Sub", [neighbour, quotient]), by])
    rest_then = builder.op("Sub", [rest, taken])
    sizes = [builder.op("Abs", [one]) for one in (rest_then, rest)]
    return [builder.op("Where", [builder.op("Less", sizes), neighbour, quotient])]


def _rest(builder: Builder, of: ir.Value, quotient: ir.Value, by: ir.Value) -> ir.Value:
    """Return what is left of a dividend behind the product of its quotient and the divisor."""
    product = builder.op("Mul", [quotient, by])
    rest = builder.op("Sub", [of, product])
    (high, low), (by_high, by_low) = (_halves(builder, one) for one in (quotient, by))
    lost = builder.op("Sub", [builder.op("Mul", [high, by_high]), product])
    for pair in ((high, by_low), (low, by_high), (low, by_low)):
        lost = builder.op("Add", [lost, builder.op("Mul", pair)])
    return builder.op("Sub", [rest, lost])


def _halves(builder: Builder, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return two numbers of 12 bits whose sum a value is."""
    wide = builder.op("Mul", [value, _number(builder, _HALF)])
    high = builder.op("Sub", [wide, builder.op("Sub", [wide, value])])
    return high, builder.op("Sub", [value, high])


def _number(builder: Builder, number: float) -> ir.Value:
    return builder.constant(np.array(number, np.float32))
