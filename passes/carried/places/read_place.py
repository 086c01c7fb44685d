"""One place of a carried tensor that an iteration reads, changes and writes back.

``h[i] += x`` and ``h[i, j] += x`` are written as a Gather of what stands there, an Add, and a
ScatterND to the same place, which is one that adds ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.places.columns import Column
from passes.carried.places.joins import find_join
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.number_order import is_nonnegative
from passes.typing.corrections import asked_dimension

__all__ = ["find_joined", "formed"]

_FORMS = ("Expand", "Reshape")
"""Operators that give one number, or one row, another shape."""


def find_joined(
    updates: ir.Value,
    columns: Sequence[Column],
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> tuple[ir.Value, str, list[ir.Node]] | None:
    """Return what is joined to the one place that is read, how, and what computes it.

    Args:
        updates: What is written to the place.
        columns: The place, each column one number.
        inner: The carried tensor.
        body: The body of the Loop.
        evaluator: Knows the numbers of the body.
    """
    joins = find_join(formed(updates, body), inner, body, evaluator.dtype(inner))
    if joins is None:
        return None
    read = joins.read
    dims = evaluator.dims(read)
    if dims is not None and all(dim == 1 for dim in dims):
        read = formed(read, body)
    elif evaluator.rank(joins.node.outputs[0]) != evaluator.rank(read):
        return None
    if not _reads(skip_identities(read), columns, inner, body, evaluator):
        return None
    delta, nodes = joins.signed()
    return delta, joins.reduction, nodes


def formed(value: ir.Value, body: ir.Graph | Scope) -> ir.Value:
    """Return what was given another shape."""
    return through(value, _FORMS, body)


def _reads(
    value: ir.Value,
    columns: Sequence[Column],
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether a value is what stands at one place: ``s[i]``, or ``s[i, j]``, or ``s[i][j]``."""
    for at in range(len(columns), 0, -1):
        node = made_by(value, "Gather", body=body)
        if node is None or node.attributes.get_int("axis", 0) != 0:
            return False
        whole, index = map(skip_identities, operands(node))
        if at == len(columns) == 2 and _is_flat_place(whole, index, columns, inner, body):
            return _is_position(columns[1].root, evaluator)  # which would be of another row
        if not _names(index, columns[at - 1], evaluator):
            return False
        value = whole
    return value is inner


def _names(index: ir.Value, column: Column, evaluator: Evaluator) -> bool:
    """Whether a number is the one of a column; equal constants may stand apart."""
    if index is skip_identities(column.root):
        return True
    known = evaluator.number(index) if column.is_constant else None
    return known is not None and evaluator.rank(index) == 0 and known == column.start


def _is_flat_place(
    whole: ir.Value,
    index: ir.Value,
    columns: Sequence[Column],
    inner: ir.Value,
    body: ir.Graph | Scope,
) -> bool:
    """Whether ``i * size + j`` is read of a tensor whose first two axes are one."""
    flat, total = made_by(whole, "Flatten", body=body), made_by(index, "Add", body=body)
    if flat is None or flat.attributes.get_int("axis", 1) != 2:
        return False
    if skip_identities(operand(flat, 0)) is not inner:
        return False
    first, second = (skip_identities(column.root) for column in columns)
    product = made_by(_beside(second, total), "Mul", body=body)
    size = asked_dimension(_beside(first, product))
    return size is not None and (skip_identities(size[0]), size[1]) == (inner, 1)


def _beside(value: ir.Value, node: ir.Node | None) -> ir.Value | None:
    """Return the other operand of a node of two that reads a value."""
    given = [] if node is None else [skip_identities(v) for v in operands(node)]
    others = [v for v in given if v is not value]
    return others[0] if len(others) == 1 else None


_PICKS = ("Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Flatten")
_POSITIONS = ("ArgMax", "ArgMin", "NonZero", "Shape", "Size")


def _is_position(value: ir.Value, evaluator: Evaluator) -> bool:
    """Whether a number is not negative, by proof."""
    number = evaluator.number(value)
    if number is not None and is_nonnegative(number):
        return True
    while (node := made_by(value, *_PICKS)) is not None:
        value = operand(node, 0)
        array = constant_value(value)
        if array is not None:
            return bool((array >= 0).all())
    return made_by(value, *_POSITIONS) is not None
