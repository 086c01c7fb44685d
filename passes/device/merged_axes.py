"""Reshapes that only merge axes, or leave out ones, in forms that are told no computed size.

Of ``[A, B, C]`` the shape ``[A * B, C]`` is what Flatten yields; ``[A * B * C]`` follows from the
number of elements, as ``[A * B, 3]`` of ``[A, B, 3]``; of ``[A, 1, C]`` a Squeeze is ``[A, C]``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.batching.operators import Operators
from passes.device.shape_parts import axes_of as axes_of_shape
from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["merged_axes"]

_Size = int | str | tuple[ir.Value, int]
"""A dimension: a number, a symbol that stands for one, or an axis of a tensor."""
_MOST_STEPS = 12
"""So many nodes in a row are followed."""
_AS_THEY_ARE = ("Abs", "Identity", "Squeeze", "Unsqueeze")
"""What hands sizes on."""


@dataclasses.dataclass(frozen=True)
class _Product:
    """A product of sizes: their numbers together, and the others in an order of their own."""

    number: int = 1
    others: tuple[_Size, ...] = ()

    @staticmethod
    def of(sizes: Iterable[_Size]) -> _Product:
        one = _Product()
        for size in sizes:
            one *= _Product(size) if isinstance(size, int) else _Product(1, (size,))
        return one

    def __mul__(self, other: _Product) -> _Product:
        others = sorted((*self.others, *other.others), key=str)
        return _Product(self.number * other.number, tuple(others))

    @property
    def is_one(self) -> bool:
        return self == _Product()


def merged_axes(node: ir.Node, typing: Typing, ops: Operators) -> list[ir.Value] | None:
    """Return the operand of a Reshape with axes merged; None where it asks for something else.

    Args:
        node: A Reshape.
        typing: What is proven of the values.
        ops: Records the new nodes.
    """
    given, rank = operand(node, 0), typing.rank(operand(node, 0))
    wanted = _products(operand(node, 1), typing, _MOST_STEPS)
    if rank is None or not wanted:
        return None
    own = [_Product.of([_size(given, axis, typing)]) for axis in range(rank)]
    groups = _grouped(own, wanted)
    if groups is None or not (node.attributes.get_int("allowzero", 0) or _keeps_zeros(groups)):
        return None
    if all(len(group) < 2 for group in groups):
        return [_with_other_ones(given, groups, rank, ops)]
    unknown = [at for at, one in enumerate(wanted) if one.others]
    if len(unknown) < 2 and all(one.number > 0 for one in wanted):
        sizes = [-1 if at in unknown else one.number for at, one in enumerate(wanted)]
        return [ops.op("Reshape", [given, ops.ints(*sizes)])]
    if len(groups) == 2:
        start = min(groups[1], default=rank)
        return [ops.op("Flatten", [given], {"axis": start})]
    return None


def _size(value: ir.Value, axis: int, typing: Typing) -> _Size:
    dims = typing.dims(value)
    dim = None if dims is None else dims[axis]
    return (value, axis) if dim is None or not typing.is_one_number(dim) else dim


def _grouped(own: Sequence[_Product], wanted: Sequence[_Product]) -> list[list[int]] | None:
    """Return for each wanted size the axes, one after another, that it is the product of.

    Axes of size 1 belong to none.
    """
    axes = [axis for axis, size in enumerate(own) if not size.is_one]
    groups = list[list[int]]()
    for one in wanted:
        group, found = list[int](), _Product()
        while found != one and axes:
            found *= own[axes[0]]
            group.append(axes.pop(0))
        if found != one:
            return None
        groups.append(group)
    return None if axes else groups


def _keeps_zeros(groups: Sequence[Sequence[int]]) -> bool:
    """Whether 0 for a size, which stands for that of the operand's axis there, is this size.

    Of one axis alone it is, or there are too few elements.
    """
    return len(groups) == 1 or all(group in ([], [at]) for at, group in enumerate(groups))


def _with_other_ones(
    given: ir.Value, groups: Sequence[Sequence[int]], rank: int, ops: Operators
) -> ir.Value:
    """Return a value whose axes of size 1 stand elsewhere."""
    kept = {axis for group in groups for axis in group}
    dropped = [axis for axis in range(rank) if axis not in kept]
    value = ops.squeeze(given, dropped) if dropped else given
    added = [at for at, group in enumerate(groups) if not group]
    if added:
        value = ops.unsqueeze(value, added)
    return value if value is not given else ops.op("Identity", [given])


def _products(value: ir.Value, typing: Typing, steps: int) -> list[_Product] | None:
    """Return what each number of a vector, or a scalar, is the product of; None: not known."""
    known = constant_value(value)
    if known is not None:
        return [_Product(int(number)) for number in known.reshape(-1)]
    node = value.producer()
    if node is None or not steps or typing.rank(value) not in (0, 1):
        return None
    if is_operator(node, "Shape"):
        whole = operand(node, 0)
        rank = typing.rank(whole)
        axes = () if rank is None else axes_of_shape(node, rank)
        return None if rank is None else [_Product.of([_size(whole, a, typing)]) for a in axes]
    if not is_operator(node, _FOLLOWED):
        return None
    follow = _FOLLOWED[node.op_type]
    count = len(node.inputs) if follow in (_joined, _multiplied) else 1
    parts = [_products(operand(node, at), typing, steps - 1) for at in range(count)]
    return None if None in parts else follow(node, [part for part in parts if part is not None])


def _same(node: ir.Node, parts: Sequence[list[_Product]]) -> list[_Product] | None:
    return parts[0]


def _joined(node: ir.Node, parts: Sequence[list[_Product]]) -> list[_Product] | None:
    return [one for part in parts for one in part]


def _multiplied(node: ir.Node, parts: Sequence[list[_Product]]) -> list[_Product] | None:
    length = max(map(len, parts))
    if any(len(part) not in (1, length) for part in parts):
        return None
    rows = [part if len(part) == length else part * length for part in parts]
    return [math.prod(factors, start=_Product()) for factors in zip(*rows, strict=True)]


def _picked(node: ir.Node, parts: Sequence[list[_Product]]) -> list[_Product] | None:
    places = constant_value(operand(node, 1))
    count = len(parts[0])
    if places is None or not all(-count <= place < count for place in places.reshape(-1)):
        return None
    return [parts[0][place] for place in places.reshape(-1)]


def _product_of_all(node: ir.Node, parts: Sequence[list[_Product]]) -> list[_Product] | None:
    is_of_all = len(node.inputs) == 1 and not node.attributes.get_int("noop_with_empty_axes", 0)
    return [math.prod(parts[0], start=_Product())] if is_of_all else None


_FOLLOWED = {
    **dict.fromkeys(_AS_THEY_ARE, _same),
    "Concat": _joined,
    "Gather": _picked,
    "Mul": _multiplied,
    "ReduceProd": _product_of_all,
}
"""How each operator makes sizes of sizes."""
