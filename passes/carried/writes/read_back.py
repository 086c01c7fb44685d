"""Places of a carried tensor that an iteration reads, changes and writes back.

``h[k] += x`` is written as a Gather of place ``k``, an Add, and a ScatterND to place ``k``. Where
no place stands twice among those of one iteration, that is a ScatterND which adds ``x``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.common.ones import skip_factors_of_one
from passes.carried.pattern import FLOATS, added, added_integers
from passes.carried.places.checked_places import CheckedPlaces
from passes.carried.places.counted_rows import counts_rows
from passes.carried.places.joins import Join, find_join
from passes.carried.places.keys import AXES
from passes.graph.made import axes_of, made_by, operand, operands, skip_identities, through
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator
from passes.numbers.slice_bounds import bounds_of, slice_of
from passes.reading.facts import LoopFacts
from passes.typing.corrections import counted_axis

__all__ = ["ReadBack", "find_elements_back", "find_read_back"]

_FORMS = frozenset({"Expand", "Reshape", "Identity", "Unsqueeze", "Squeeze"})
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


def find_read_back(scatter: ir.Node, inner: ir.Value, facts: LoopFacts) -> ReadBack | None:
    """Return what a ScatterND of an iteration adds to what it reads, None if it does not.

    Args:
        scatter: A ScatterND without a reduction.
        inner: The carried tensor that it writes to.
        facts: The Loop or Scan.
    """
    body, evaluator = facts.scope, facts.evaluator
    indices, value = operand(scatter, 1), operand(scatter, 2)
    forms: list[ir.Node] = []
    checked = CheckedPlaces(facts)
    place = checked.unchecked(indices, inner)
    if place is not None:
        pick = made_by(value, "Gather", body=body)
        if pick is None or checked.picked(value, indices) is None:
            return None
        forms, value = [pick], operand(pick, 0)
    while (form := made_by(value, *_FORMS, body=body)) is not None:
        forms.insert(0, form)
        value = operand(form, 0)
    joins = find_join(value, inner, body, evaluator.dtype(inner))
    if joins is None:
        return None
    joins = dataclasses.replace(joins, read=skip_factors_of_one(joins.read, body, evaluator))
    if place is not None:
        is_same = checked.reads(joins.read, place, inner)
    else:
        is_same = _reads_places(joins.read, indices, inner, body, evaluator)
        is_same = is_same or _reads_point(joins.read, indices, inner, checked, facts)
    if not is_same:
        return None
    nodes = _reshaped(joins, joins.read, forms, evaluator)
    return ReadBack(nodes[-1].outputs[0], joins.reduction, tuple(nodes))


def find_elements_back(
    scatter: ir.Node,
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
    dtype: ir.DataType | None,
) -> ReadBack | None:
    """Return what a ScatterElements adds to the places that it writes to, None if it does not.

    ``h[k] += 1`` is written so, too. No place is named twice where there is one along the axis.

    Args:
        scatter: A ScatterElements without a reduction.
        inner: The carried tensor that it writes to.
        body: The body.
        evaluator: Knows the numbers of the body.
        dtype: The element type.
    """
    indices, updates = operand(scatter, 1), operand(scatter, 2)
    is_one = _is_one_number(indices, evaluator)
    if is_one:
        updates = through(updates, AXES, body)
    joins = find_join(updates, inner, body, evaluator.dtype(inner))
    if joins is None or not _reads_elements(joins.read, scatter, inner, body, evaluator):
        return None
    is_extreme = joins.reduction in ("max", "min") and dtype in FLOATS
    if is_extreme and evaluator.rank(indices) != 1:  # a scatter has no rule for NaN
        return None
    nodes = _reshaped(joins, indices, [], evaluator, by="Reshape" if is_one else "Expand")
    return ReadBack(nodes[-1].outputs[0], joins.reduction, tuple(nodes))


def _reads_elements(
    read: ir.Value,
    scatter: ir.Node,
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether a value is what stands at the places of a ScatterElements, each of them once."""
    indices, axis = operand(scatter, 1), scatter.attributes.get_int("axis", 0)
    dims = evaluator.dims(indices)
    if dims is not None and len(dims) == 1:  # of a vector, Gather reads the same
        read = through(read, AXES, body)
        node = made_by(read, "Gather", "GatherElements", body=body)
        if node is not None and skip_identities(operand(node, 0)) is inner:
            return _is_one_place(operand(node, 1), indices, body, evaluator)
    node = made_by(read, "GatherElements", body=body)
    if node is None or dims is None:
        return False
    whole, places = map(skip_identities, operands(node))
    is_same = whole is inner and places is skip_identities(indices)
    return is_same and node.attributes.get_int("axis", 0) == axis and dims[axis] == 1


def _reshaped(
    joins: Join,
    like: ir.Value,
    forms: Sequence[ir.Node],
    evaluator: Evaluator,
    *,
    by: str = "Expand",
) -> list[ir.Node]:
    """Return what gives a value the shape of another one, and then the same forms."""
    given, nodes = joins.signed()
    sizes = [evaluator.dimension(like, at) for at in range(evaluator.rank(like) or 0)]
    known = [size.number for size in sizes if size is not None and size.number is not None]
    shape = added("Shape", [like])
    if known and len(known) == len(sizes):
        shape = added_integers(*known)
    nodes += [shape, added(by, [given, shape.outputs[0]])]
    for form in forms:
        inputs = [nodes[-1].outputs[0], *operands(form)[1:]]
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
    node = made_by(read, "Gather", "Slice", body=body)
    if node is None or skip_identities(operand(node, 0)) is not inner:
        return False
    if node.op_type == "Slice":
        if counts_rows(node, indices, body, evaluator):
            return True
        return _is_range(node, _with_axis(indices, body), inner, body, evaluator)
    is_same = _is_one_place(operand(node, 1), indices, body, evaluator)
    return is_same and node.attributes.get_int("axis", 0) == 0


def _reads_point(
    read: ir.Value,
    indices: ir.Value,
    inner: ir.Value,
    checked: CheckedPlaces,
    facts: LoopFacts,
) -> bool:
    """Whether a GatherND reads the one place, along however many axes, of a ScatterND."""
    node = made_by(read, "GatherND", body=facts.scope)
    if node is None or skip_identities(operand(node, 0)) is not inner:
        return False
    picked = operand(node, 1)
    dims = [facts.evaluator.dims(value) for value in (picked, indices)]
    if not all(one and all(dim == 1 for dim in one[:-1]) for one in dims):
        return False
    along = {one[-1] for one in dims if one}
    is_point = len(along) == 1 and isinstance(along.pop(), int)
    is_whole = node.attributes.get_int("batch_dims", 0) == 0
    return is_point and is_whole and checked.root(picked) is checked.root(indices)


def _is_one_place(
    picked: ir.Value, indices: ir.Value, body: ir.Graph | Scope, evaluator: Evaluator
) -> bool:
    """Whether one place is read, and the same one written to."""
    if not (_is_one_number(picked, evaluator) and _is_one_number(indices, evaluator)):
        return False
    return through(picked, AXES, body) is through(indices, AXES, body)


def _is_one_number(places: ir.Value, evaluator: Evaluator) -> bool:
    """Whether there is one place only."""
    dims = evaluator.dims(places)
    return dims is not None and all(dim == 1 for dim in dims)


def _with_axis(indices: ir.Value, body: ir.Graph | Scope) -> ir.Value | None:
    """Return a row of places that gains an axis of 1, None if they are not made so."""
    node = made_by(indices, "Unsqueeze", body=body)
    if node is None or axes_of(node) not in ([-1], [1]):
        return None
    return operand(node, 0)


def _is_range(
    read: ir.Node,
    places: ir.Value | None,
    inner: ir.Value,
    body: ir.Graph | Scope,
    evaluator: Evaluator,
) -> bool:
    """Whether places are the numbers of the rows that a Slice of a tensor reads."""
    cut = slice_of(places, evaluator, body)
    if cut is None or cut[1] != bounds_of(read, evaluator) or cut[1].axis != 0:
        return False
    numbers = made_by(cut[0], "Range", body=body)
    counted = None if numbers is None else counted_axis(numbers)
    return counted is not None and (skip_identities(counted[0]), counted[1]) == (inner, 0)
