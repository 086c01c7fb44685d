"""A Reshape that is there to fail, on runtimes where it does not, or that refuse it.

n numbers are reshaped to n and as many more as something is amiss: nothing but an error where that
is so (`passes.batching.packed.checks`). OpenVINO goes on with the numbers as they are; tract loads
no model with a Reshape to a size that only numbers tell.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import either_order, made_by, operand, shaped, skip_identities
from passes.runtimes.types import Types

__all__ = ["failing_by_a_broadcast", "fails_by_its_size"]

_NUMBERS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})


def fails_by_its_size(node: ir.Node, types: Types) -> bool:
    """Whether a Reshape takes numbers to their own shape and a number more."""
    return _more(node, types) is not None and types.dtype(operand(node, 0)) in _NUMBERS


def _more(node: ir.Node, types: Types) -> ir.Value | None:
    """Return by how many elements an axis is to be longer than it is."""
    numbers = operand(node, 0)
    if not types.rank(numbers):
        return None
    for size, more in either_order(made_by(operand(node, 1), "Add")):
        if shaped(size) is skip_identities(numbers) and types.rank(more) is not None:
            return more
    return None


def failing_by_a_broadcast(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The numbers less 0: the first product of two rows of numbers from 0 on.

    The rows are ``[0]`` and ``[0, 1]`` where nothing is amiss, otherwise they have three and four
    numbers, five and six, or more, and cannot be multiplied.
    """
    more, numbers = _more(node, types), operand(node, 0)
    dtype = types.dtype(numbers)
    assert more is not None and dtype is not None
    if types.rank(more):
        more = builder.op("ReduceSum", [more], {"keepdims": 0})
    twice = builder.op("Mul", [more, builder.scalar(2)])
    row, longer = (
        builder.arange(builder.op("Add", [twice, builder.scalar(count)])) for count in (1, 2)
    )
    product = builder.op("Mul", [row, longer])
    zero = builder.op("Gather", [product, builder.scalar(0)])
    if dtype != ir.DataType.INT64:
        zero = builder.op("Cast", [zero], {"to": int(dtype)})
    return [builder.op("Sub", [numbers, zero])]
