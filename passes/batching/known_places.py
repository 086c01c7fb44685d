"""Places that a ScatterND writes, and that are known to be there.

Exporters write what a script computes of its own numbers, such as the filter of a blur, at places
that they count: ``k = torch.ones(3, 3); k[1, 1] = 5``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, only_number, operands
from passes.typing import Typing

__all__ = ["writes_known_places"]

_MOVES = ("Expand", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Unsqueeze")
"""Operators that yield no other integers than those of their first operand."""

_MOST_NUMBERS = 1 << 10


def writes_known_places(node: ir.Node, typing: Typing) -> bool:
    """Whether a ScatterND writes what fits, at constant places of a tensor of known shape."""
    shapes = [typing.static_dims(value) for value in operands(node)]
    data, indices, updates = shapes
    if data is None or indices is None or updates is None or not indices:
        return False
    *rows, depth = indices
    if len(data) < depth or updates != (*rows, *data[depth:]):
        return False
    columns = _columns(operands(node)[1], depth, typing)
    pairs = zip(columns, data[:depth], strict=True)
    return all(x is not None and all(-size <= n < size for n in x) for x, size in pairs)


def _columns(places: ir.Value, depth: int, typing: Typing) -> list[frozenset[int] | None]:
    """Return the numbers of a tensor at each place of its last axis, None for unknown ones."""
    array, joined = constant_value(places), made_by(places, "Concat")
    if array is not None:
        return [_set_of(array[..., at]) for at in range(depth)]
    rank = typing.rank(places)
    if joined is not None and rank and joined.attributes.get_int("axis", 0) % rank == rank - 1:
        found: list[frozenset[int] | None] = []
        for part in operands(joined):
            dims = typing.static_dims(part)
            found += [None] if dims is None else _columns(part, dims[-1], typing)
        return found if len(found) == depth else [None] * depth
    return [_numbers(places)] * depth


def _numbers(value: ir.Value) -> frozenset[int] | None:
    """Return all integers that a tensor may hold, None where they are not known."""
    array, node = constant_value(value), value.producer()
    if array is not None:
        return _set_of(array)
    if is_operator(node, "Range"):
        bounds = [only_number(x) for x in operands(node)]
        given = [n for n in bounds if isinstance(n, int)]
        if len(given) < len(bounds) or not given[2]:
            return None
        counted = range(*given)
        return frozenset(counted) if len(counted) <= _MOST_NUMBERS else None
    if is_operator(node, "Concat"):
        parts = [_numbers(x) for x in operands(node)]
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None
    return _numbers(operands(node)[0]) if is_operator(node, _MOVES) else None


def _set_of(array: Iterable[int] | np.ndarray) -> frozenset[int] | None:
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "iu" or numbers.size > _MOST_NUMBERS:
        return None
    return frozenset(numbers.reshape(-1).tolist())
