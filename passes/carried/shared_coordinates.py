"""The coordinate that all places of an iteration have in common."""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.columns import is_last_axis
from passes.carried.uniform import one_number
from passes.graph.graphs import constant_value, subgraphs
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.reading.evaluate import Evaluator
from passes.reading.integers import TRIP, Linear

__all__ = ["all_places", "shared_coordinate", "yielded_by_branches"]


def shared_coordinate(indices: ir.Value, evaluator: Evaluator) -> Linear | None:
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
    is_last = is_last_axis(node.attributes.get_int("axis", 0), evaluator.rank(places))
    numbers = [one_number(part, evaluator) for part in operands(node)] if is_last else []
    grows = (n for n in numbers if n is not None and n.coefficient(TRIP))
    return next(grows, None) or _column_of(indices, evaluator)


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


def _of_branches(node: ir.Node, at: int, evaluator: Evaluator) -> Linear | None:
    """Return the coordinate that places of whichever branch have in common."""
    found = {shared_coordinate(value, evaluator) for value in yielded_by_branches(node, at)}
    return found.pop() if len(found) == 1 else None


def yielded_by_branches(node: ir.Node, at: int) -> list[ir.Value]:
    """Return what the branches of an If yield as one of its outputs, less what holds nothing."""
    found = [branch.outputs[at] for _, branch in subgraphs(node)]
    arrays = [constant_value(value) for value in found]
    return [v for v, array in zip(found, arrays, strict=True) if array is None or array.size]


def _column_of(indices: ir.Value, evaluator: Evaluator) -> Linear | None:
    """Return such a coordinate of places that are known number by number."""
    numbers = evaluator.of(indices)
    places = [numbers] if evaluator.rank(indices) == 1 else evaluator.table(indices)
    for column in zip(*(place for place in places or () if place is not None), strict=True):
        if len(set(column)) == 1 and column[0].coefficient(TRIP):
            return column[0]
    return None
