"""One place of a carried tensor that an iteration reads, changes and writes back.

``h[i] += x`` and ``h[i, j] += x`` are written as a Gather of what stands there, an Add, and a
ScatterND to the same place, which is one that adds ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.columns import Column
from passes.carried.pattern import added, dependent_values, operator, path_through
from passes.graph.graphs import constant_value, is_default_domain
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.integers import is_nonnegative

__all__ = ["find_joined", "formed"]

_REDUCTIONS = {"Add": "add", "Sum": "add", "Sub": "add", "Mul": "mul", "Max": "max", "Min": "min"}
"""The reduction of a scatter that each operator is."""

_FORMS = frozenset({"Expand", "Reshape", "Identity"})
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
    joins = operator(formed(updates, body), body)
    if joins is None or joins.op_type not in _REDUCTIONS:
        return None
    path = path_through(joins, dependent_values(body, inner))
    if path is None or len(path[1]) != 1 or (joins.op_type == "Sub" and path[0]):
        return None
    read = joins.inputs[path[0]]
    if read is None:
        return None
    if evaluator.rank(read) == 0:
        read = formed(read, body)
    elif evaluator.rank(joins.outputs[0]) != evaluator.rank(read):
        return None
    if not _reads(skip_identities(read), columns, inner, body, evaluator):
        return None
    delta, nodes = path[1][0], []
    if joins.op_type == "Sub":
        nodes.append(added("Neg", [delta]))
        delta = nodes[-1].outputs[0]
    return delta, _REDUCTIONS[joins.op_type], nodes


def formed(value: ir.Value, body: ir.Graph | Scope) -> ir.Value:
    """Return what was given another shape."""
    value = skip_identities(value)
    node = operator(value, body)
    while node is not None and node.op_type in _FORMS and node.inputs[0] is not None:
        value = skip_identities(node.inputs[0])
        node = operator(value, body)
    return value


def _reads(
    value: ir.Value,
    columns: Sequence[Column],
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether a value is what stands at one place: ``s[i]``, or ``s[i, j]``, or ``s[i][j]``."""
    for at in range(len(columns), 0, -1):
        node = operator(value, body)
        if node is None or node.op_type != "Gather" or node.attributes.get_int("axis", 0) != 0:
            return False
        whole, index = (None if v is None else skip_identities(v) for v in node.inputs)
        if whole is None or index is None:
            return False
        if at == len(columns) == 2 and _is_flat_place(whole, index, columns, inner, body):
            return _is_position(columns[1].root, evaluator)  # which would be of another row
        if index is not skip_identities(columns[at - 1].root):
            return False
        value = whole
    return value is inner


def _is_flat_place(
    whole: ir.Value,
    index: ir.Value,
    columns: Sequence[Column],
    inner: ir.Value,
    body: ir.Graph | Scope,
) -> bool:
    """Whether ``i * size + j`` is read of a tensor whose first two axes are one."""
    flat, total = operator(whole, body), operator(index, body)
    if flat is None or flat.op_type != "Flatten" or flat.attributes.get_int("axis", 1) != 2:
        return False
    if flat.inputs[0] is None or skip_identities(flat.inputs[0]) is not inner:
        return False
    if total is None or total.op_type != "Add":
        return False
    first, second = (skip_identities(column.root) for column in columns)
    terms = [skip_identities(v) for v in total.inputs if v is not None]
    others = [v for v in terms if v is not second]
    product = operator(others[0], body) if len(others) == 1 else None
    if product is None or product.op_type != "Mul":
        return False
    factors = [skip_identities(v) for v in product.inputs if v is not None]
    sizes = [v for v in factors if v is not first]
    return len(sizes) == 1 and _is_size(sizes[0], inner, body)


def _is_size(value: ir.Value, inner: ir.Value, body: ir.Graph | Scope) -> bool:
    """Whether a value is the second dimension of a carried tensor."""
    node = operator(value, body)
    if node is None or node.op_type != "Gather" or node.inputs[0] is None:
        return False
    shape, at = operator(skip_identities(node.inputs[0]), body), constant_value(node.inputs[1])
    if shape is None or shape.op_type != "Shape" or shape.attributes or at is None:
        return False
    return shape.inputs[0] is inner and at.size == 1 and at.item() == 1


_PICKS = frozenset({"Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Flatten"})
_POSITIONS = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size"})


def _is_position(value: ir.Value, evaluator: Evaluator) -> bool:
    """Whether a number is not negative, by proof."""
    number = evaluator.number(value)
    if number is not None and is_nonnegative(number):
        return True
    node = value.producer()
    while node is not None and is_default_domain(node) and node.op_type in _PICKS:
        given = node.inputs[0]
        array = constant_value(given)
        if given is None or array is not None:
            return array is not None and bool((array >= 0).all())
        node = given.producer()
    return node is not None and is_default_domain(node) and node.op_type in _POSITIONS
