"""Places of a carried tensor that an iteration reads, changes and writes back.

``h[k] += x`` is written as a Gather of place ``k``, an Add, and a ScatterND to place ``k``. Where
no place stands twice among those of one iteration, that is a ScatterND which adds ``x``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added, dependent_values, operator, path_through
from passes.graph.graphs import constant_value
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator

__all__ = ["ReadBack", "find_read_back"]

_REDUCTIONS = {"Add": "add", "Sum": "add", "Sub": "add", "Mul": "mul", "Max": "max", "Min": "min"}
"""The reduction of a ScatterND that each operator is."""

_FORMS = frozenset({"Expand", "Reshape", "Identity"})
"""Operators that give updates the shape that a ScatterND wants."""


@dataclasses.dataclass(frozen=True)
class ReadBack:
    """What is joined to the places that are read.

    Attributes:
        updates: The updates of a ScatterND that joins them.
        reduction: How it joins them.
        nodes: What computes the updates, in order; they stand in no graph.
    """

    updates: ir.Value
    reduction: str
    nodes: tuple[ir.Node, ...]


def find_read_back(
    scatter: ir.Node, inner: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> ReadBack | None:
    """Return what a ScatterND of an iteration adds to what it reads, None if it does not.

    Args:
        scatter: A ScatterND without a reduction.
        inner: The carried tensor that it writes to.
        body: The body.
        evaluator: Knows the numbers of the body.
    """
    indices, updates = scatter.inputs[1:3]
    assert indices is not None and updates is not None
    forms: list[ir.Node] = []
    joins = operator(updates, body)
    while joins is not None and joins.op_type in _FORMS:
        forms.insert(0, joins)
        first = joins.inputs[0]
        joins = None if first is None else operator(first, body)
    if joins is None or joins.op_type not in _REDUCTIONS:
        return None
    path = path_through(joins, dependent_values(body, inner))
    if path is None or len(path[1]) != 1 or (joins.op_type == "Sub" and path[0]):
        return None
    read, (delta,) = joins.inputs[path[0]], path[1]
    if read is None or not _reads_places(skip_identities(read), indices, inner, body, evaluator):
        return None
    nodes = _reshaped(delta, read, forms, is_negative=joins.op_type == "Sub")
    return ReadBack(nodes[-1].outputs[0], _REDUCTIONS[joins.op_type], tuple(nodes))


def _reshaped(
    delta: ir.Value, read: ir.Value, forms: Sequence[ir.Node], *, is_negative: bool
) -> list[ir.Node]:
    """Return what gives a value the shape of updates: that of what was read, and then the same."""
    nodes = [added("Neg", [delta])] if is_negative else []
    given = nodes[-1].outputs[0] if nodes else delta
    shape = added("Shape", [read])
    nodes += [shape, added("Expand", [given, shape.outputs[0]])]
    for form in forms:
        inputs = [nodes[-1].outputs[0], *(v for v in form.inputs[1:] if v is not None)]
        nodes.append(added(form.op_type, inputs, dict(form.attributes)))
    return nodes


def _reads_places(
    read: ir.Value,
    indices: ir.Value,
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether a value is what stands at the places of a ScatterND, each of them once."""
    node = operator(read, body)
    if node is None or node.inputs[0] is None or skip_identities(node.inputs[0]) is not inner:
        return False
    if node.op_type == "Gather":
        places, at = _with_axis(indices, 0, body), node.inputs[1]
        if places is None or at is None or node.attributes.get_int("axis", 0) != 0:
            return False
        is_same = skip_identities(at) is skip_identities(places)
        return is_same and evaluator.rank(places) == 0
    places = _with_axis(indices, 1, body)
    if places is None or node.op_type != "Slice":
        return False
    return _is_range(node, places, inner, body, evaluator)


def _with_axis(indices: ir.Value, rank: int, body: ir.Graph | Scope) -> ir.Value | None:
    """Return places of a rank that gain an axis of 1 at the end, None if they are not made so."""
    node = operator(skip_identities(indices), body)
    if node is None or node.op_type != "Unsqueeze" or node.inputs[0] is None:
        return None
    axes = node.attributes.get_ints("axes")
    if axes is None:
        given = constant_value(node.inputs[1]) if len(node.inputs) > 1 else None
        axes = None if given is None else given.reshape(-1).tolist()
    return node.inputs[0] if axes is not None and list(axes) in ([-1], [rank]) else None


def _is_range(
    read: ir.Node, places: ir.Value, inner: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> bool:
    """Whether places are the numbers of the rows that a Slice of a tensor reads."""
    cut = operator(skip_identities(places), body)
    if cut is None or cut.op_type != "Slice":
        return False
    for one in (read, cut):
        if _constants(one, 3, evaluator) not in (None, (0,)) or len(one.inputs) < 4:
            return False
        if _constants(one, 4, evaluator) != (1,):
            return False
    for at in (1, 2):
        pair = [evaluator.number(node.inputs[at]) for node in (read, cut)]
        if pair[0] is None or pair[0] != pair[1]:
            return False
    assert cut.inputs[0] is not None
    numbers = operator(skip_identities(cut.inputs[0]), body)
    if numbers is None or numbers.op_type != "Range":
        return False
    return _counts_rows(numbers, inner, body)


def _constants(node: ir.Node, at: int, evaluator: Evaluator) -> tuple[int, ...] | None:
    """Return the constants that an operand consists of, None for axes that are not given."""
    if len(node.inputs) <= at or node.inputs[at] is None:
        return (1,) if at == 4 else None
    numbers = evaluator.of(node.inputs[at])
    known = [n.number for n in numbers or ()]
    return tuple(n if n is not None else np.iinfo(np.int64).max for n in known)


def _counts_rows(node: ir.Node, inner: ir.Value, body: ir.Graph | Scope) -> bool:
    """Whether a Range counts from 0 in steps of 1 up to the rows of a tensor."""
    start, limit, step = node.inputs
    ends = [constant_value(start), constant_value(step)]
    if limit is None or [None if e is None else e.item() for e in ends] != [0, 1]:
        return False
    gather = operator(skip_identities(limit), body)
    if gather is not None and gather.op_type == "Cast" and gather.inputs[0] is not None:
        gather = operator(gather.inputs[0], body)
    if gather is None or gather.op_type != "Gather" or gather.inputs[0] is None:
        return False
    at, shape = constant_value(gather.inputs[1]), operator(gather.inputs[0], body)
    if at is None or at.size != 1 or at.any() or shape is None:
        return False
    return shape.op_type == "Shape" and not shape.attributes and shape.inputs[0] is inner
