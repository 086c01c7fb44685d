"""The coordinate that all places of an iteration have in common."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.uniform import one_number
from passes.carried.places.columns import is_last_axis
from passes.graph.graphs import constant_value, subgraphs
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import ITERATION, Linear

__all__ = ["Reach", "all_places", "columns_of", "shared_coordinate", "yielded_by_branches"]


@dataclasses.dataclass(frozen=True)
class Reach:
    """Numbers from one on.

    Attributes:
        first: A number that none of them is less than.
        width: How many follow it at most, itself counted.
        axis: Along which axis they name places, None where that is not told.
    """

    first: Linear
    width: int
    axis: int | None = None


def shared_coordinate(indices: ir.Value, evaluator: Evaluator) -> Reach | None:
    """Return a coordinate that all places have in common and that grows with the iterations.

    Args:
        indices: The places, ``[..., axes]``.
        evaluator: Knows the numbers of the body.
    """
    places = all_places(indices, evaluator)
    node = made_by(places, "Concat", "If")
    if node is None:
        return _column_of(indices, evaluator)
    if node.op_type == "If":
        return _of_branches(node, list(node.outputs).index(places), evaluator)
    for axis, part in columns_of(places, evaluator):
        number = one_number(part, evaluator)
        if number is not None and number.coefficient(ITERATION):
            return Reach(number, 1, axis)
    return _column_of(indices, evaluator)


def columns_of(places: ir.Value, evaluator: Evaluator) -> list[tuple[int | None, ir.Value]]:
    """Return what names places side by side, each with the first axis along which it does."""
    node = made_by(places, "Concat")
    is_beside = node is not None and is_last_axis(
        node.attributes.get_int("axis", 0), evaluator.rank(places)
    )
    if node is None or not is_beside:
        return [(0, places)]
    found: list[tuple[int | None, ir.Value]] = []
    axis: int | None = 0
    for part in operands(node):
        found.append((axis, part))
        size = (evaluator.dims(part) or (None,))[-1]
        axis = axis + size if axis is not None and isinstance(size, int) else None
    return found


def all_places(places: ir.Value, evaluator: Evaluator) -> ir.Value:
    """Return all places, before some of them are dropped and their grid is made a list."""
    while (node := made_by(places, "Compress", "Reshape")) is not None:
        whole = operand(node, 0)
        if node.op_type == "Compress" and node.attributes.get_int("axis", -1) != 0:
            break
        if node.op_type == "Reshape" and not _keep_rows(whole, places, evaluator):
            break
        places = whole
    return skip_identities(places)


def _keep_rows(one: ir.Value, other: ir.Value, evaluator: Evaluator) -> bool:
    """Whether two tensors of the same numbers have the same number of them in a row."""
    sizes = [dims[-1] if dims else None for dims in (evaluator.dims(one), evaluator.dims(other))]
    return isinstance(sizes[0], int) and sizes[0] == sizes[1]


def _of_branches(node: ir.Node, at: int, evaluator: Evaluator) -> Reach | None:
    """Return the coordinate that places of whichever branch have in common."""
    found = {shared_coordinate(value, evaluator) for value in yielded_by_branches(node, at)}
    return found.pop() if len(found) == 1 else None


def yielded_by_branches(node: ir.Node, at: int) -> list[ir.Value]:
    """Return what the branches of an If yield as one of its outputs, less what holds nothing."""
    found = [branch.outputs[at] for _, branch in subgraphs(node)]
    arrays = [constant_value(value) for value in found]
    return [v for v, array in zip(found, arrays, strict=True) if array is None or array.size]


def _column_of(indices: ir.Value, evaluator: Evaluator) -> Reach | None:
    """Return such a coordinate of places that are known number by number."""
    numbers = evaluator.of(indices)
    places = [numbers] if evaluator.rank(indices) == 1 else evaluator.table(indices)
    columns = zip(*(place for place in places or () if place is not None), strict=True)
    for axis, column in enumerate(columns):
        if len(set(column)) == 1 and column[0].coefficient(ITERATION):
            return Reach(column[0], 1, axis)
    return None
