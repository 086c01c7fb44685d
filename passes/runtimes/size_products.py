"""Products of a few sizes, by Mul, which more runtimes have for int64 than ReduceProd."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand, optional_operand
from passes.typing import Typing

__all__ = ["product_of_sizes"]

# A product of more numbers than this stays one node.
_FACTORS = 4
_INT64 = ir.DataType.INT64


def product_of_sizes(node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
    """The product of a few sizes, by Mul; those of several samples lie in rows."""
    data = operand(node, 0)
    dims = typing.dims(data)
    if typing.dtype(data) != _INT64 or not dims:
        return None
    axis, most = _only_axis(node, len(dims)), _most_numbers(data, typing)
    keeps, rank = node.attributes.get_int("keepdims", 1), len(dims)
    if rank > 1 and _reduces_all(node):
        whole = typing.static_dims(data)
        dims = (None if whole is None else math.prod(whole),)
        axis, data = 0, builder.op("Reshape", [data, builder.ints(-1)])
    if axis is None:
        return None
    count = dims[axis]
    if not isinstance(count, int) and len(dims) == 1 and 0 < most <= _FACTORS:
        # Where there are fewer sizes, ones stand in for the rest.
        count, ones = most, builder.ints(*[1] * most)
        data = builder.op("Concat", [data, ones], {"axis": 0})
    if not isinstance(count, int) or not 0 < count <= _FACTORS:
        return None
    places = [builder.ints(i) if keeps else builder.scalar(i) for i in range(count)]
    factors = [builder.op("Gather", [data, place], {"axis": axis}) for place in places]
    product = factors[0]
    for factor in factors[1:]:
        product = builder.op("Mul", [product, factor])
    if keeps and len(dims) < rank:
        product = builder.op("Reshape", [product, builder.ints(*[1] * rank)])
    return [product]


def _most_numbers(numbers: ir.Value, typing: Typing) -> int:
    """Return how many numbers a part of a vector, or of a Shape, has at most; 0: any.

    ``Shape <start = -2>`` of a vector is one number, of anything else two. A Slice of three
    numbers is three at most, wherever it starts and ends.
    """
    node = numbers.producer()
    if is_operator(node, "Shape"):
        end = node.attributes.get_int("end")
        return _between(node.attributes.get_int("start", 0), end)
    if not is_operator(node, "Slice"):
        return 0
    whole = typing.static_dims(operand(node, 0))
    bounds = [math.prod(whole or (0,)), _most_cut(node) if typing.rank(numbers) == 1 else 0]
    return min(filter(None, bounds), default=0)


def _most_cut(node: ir.Node) -> int:
    """Return how many numbers a Slice of a vector cuts out at most by its bounds; 0: any."""
    if len(node.inputs) != 3:
        return 0
    starts, ends = (constant_value(one) for one in node.inputs[1:])
    if starts is None or ends is None or starts.size != 1 or ends.size != 1:
        return 0
    return _between(int(starts.item()), int(ends.item()))


def _between(start: int, end: int | None) -> int:
    """Return how many places a part has at most, whatever it is cut out of; 0: any."""
    if end is not None and (start < 0) == (end < 0):
        return max(end - start, 0)
    return -start if start < 0 and end is None else 0


def _only_axis(node: ir.Node, rank: int) -> int | None:
    """Return the axis that a node reduces, not negative; None for several, or unknown ones."""
    if _reduces_all(node):
        return 0 if rank == 1 else None
    axes = _axes(node)
    return int(axes[0]) % rank if axes is not None and len(axes) == 1 else None


def _reduces_all(node: ir.Node) -> bool:
    """Whether a node names no axis, and reduces all of them."""
    axes = _axes(node)
    is_named = optional_operand(node, 1) is not None if axes is None else len(axes) > 0
    return not is_named and not node.attributes.get_int("noop_with_empty_axes", 0)


def _axes(node: ir.Node) -> Sequence[int] | np.ndarray | None:
    """Return the axes that a node names; None where it names none, or only the run tells."""
    given = optional_operand(node, 1)
    return node.attributes.get_ints("axes") if given is None else constant_value(given)
