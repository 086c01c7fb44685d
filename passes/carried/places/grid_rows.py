"""The places of one range of a carried tensor as a list, and what is written there as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added, added_constant, added_integers
from passes.carried.places.columns import Column
from passes.graph.builder import END
from passes.graph.made import made_by, operand, skip_identities, through
from passes.graph.scopes import Scope
from passes.numbers.evaluate import Evaluator

__all__ = ["AxesBehind", "picked_rows", "places_of", "rows_of", "shape_of_rows", "unshaped"]


@dataclasses.dataclass(frozen=True)
class AxesBehind:
    """The axes of a carried tensor behind those along which places are named."""

    inner: ir.Value
    named: int
    rank: int
    evaluator: Evaluator

    def shape(self) -> list[ir.Node]:
        """Return nodes; the last one computes their dimensions."""
        known = self._known()
        if known is not None:
            return [added_integers(*known)]
        bounds = [added_integers(self.named), added_integers(END)]
        whole = added("Shape", [self.inner])
        inputs = [whole.outputs[0], *(node.outputs[0] for node in bounds)]
        return [*bounds, whole, added("Slice", inputs)]

    def cell(self, value: ir.Value, *, broadcasts: bool) -> tuple[ir.Value, list[ir.Node]]:
        """Return what is written to one place, and the nodes that compute it."""
        known = self._known()
        if known is not None and self.evaluator.dims(value) == known:
            return value, []
        nodes = self.shape()
        dims = nodes[-1].outputs[0]
        if broadcasts and self.rank > self.named:
            nodes.append(added("Expand", [value, dims]))
            value = nodes[-1].outputs[0]
        nodes.append(added("Reshape", [value, dims], {"allowzero": 1}))
        return nodes[-1].outputs[0], nodes

    def _known(self) -> tuple[int, ...] | None:
        """Return their dimensions, None if one of them is not known."""
        dims = self.evaluator.dims(self.inner)
        rest = () if dims is None else dims[self.named :]
        known = tuple(dim for dim in rest if isinstance(dim, int))
        return known if len(known) == self.rank - self.named else None


def places_of(columns: Sequence[Column], wide: Column) -> tuple[ir.Value, list[ir.Node]]:
    """Return a list of places, ``[n, axes]``, and what computes it."""
    axis, shape = added_integers(1), added("Shape", [wide.root])
    nodes, parts = [axis, shape], []
    for column in columns:
        root = column.root
        if column.is_point:
            nodes.append(added("Expand", [root, shape.outputs[0]]))
            root = nodes[-1].outputs[0]
        nodes.append(added("Unsqueeze", [root, axis.outputs[0]]))
        parts.append(nodes[-1].outputs[0])
    places = added("Concat", parts, {"axis": 1})
    return places.outputs[0], [*nodes, places]


def rows_of(
    updates: ir.Value, wide: Column, rest: AxesBehind, body: ir.Graph | Scope, evaluator: Evaluator
) -> tuple[ir.Value, list[ir.Node]]:
    """Return a list of rows, ``[n, ..]``, and what computes it.

    What is written may be one row for all places, or one for each.
    """
    value, own = unshaped(updates, body), 1 + rest.rank - rest.named
    shape, nodes = shape_of_rows(wide, rest)
    given = _spread(value, own, body, evaluator)
    if given is None:
        if evaluator.rank(value) == own and _keeps_rows(value, updates, rest, evaluator):
            return value, []
        nodes.append(added("Reshape", [value, shape], {"allowzero": 1}))
        return nodes[-1].outputs[0], nodes
    picked: list[ir.Node] = []
    if evaluator.rank(given) == own:
        given, picked = picked_rows(given, wide)
    rows = added("Expand", [given, shape])
    return rows.outputs[0], [*picked, *nodes, rows]


def _keeps_rows(
    value: ir.Value, updates: ir.Value, rest: AxesBehind, evaluator: Evaluator
) -> bool:
    """Whether a value is written row by row as it is, whatever it was reshaped to."""
    if value is skip_identities(updates):
        return True
    own, whole = evaluator.dims(value), evaluator.dims(rest.inner)
    if own is None or whole is None:
        return False
    return own[1:] == whole[rest.named :] and None not in own[1:]


def shape_of_rows(wide: Column, rest: AxesBehind) -> tuple[ir.Value, list[ir.Node]]:
    """Return the shape of a list of rows, ``[n, ..]``, and what computes it."""
    nodes = [added("Shape", [wide.root])]
    if rest.rank > rest.named:
        count = nodes[0].outputs[0]
        nodes += rest.shape()
        nodes.append(added("Concat", [count, nodes[-1].outputs[0]], {"axis": 0}))
    return nodes[-1].outputs[0], nodes


def _spread(
    value: ir.Value, rank: int, body: ir.Graph | Scope, evaluator: Evaluator
) -> ir.Value | None:
    """Return what is expanded to rows of as many axes, None if nothing is."""
    node = made_by(value, "Expand", body=body)
    if node is None:
        return None
    given = skip_identities(operand(node, 0))
    own = evaluator.rank(given)
    return given if own is not None and own <= rank == evaluator.rank(value) else None


def picked_rows(value: ir.Value, wide: Column) -> tuple[ir.Value, list[ir.Node]]:
    """Return row ``min(i, rows - 1)`` of a value for each place ``i``, and what computes it."""
    zero, one = _scalar(0), _scalar(1)
    places, own = added("Shape", [wide.root]), added("Shape", [value])
    count, rows = (
        added("Gather", [shape.outputs[0], zero.outputs[0]], {"axis": 0})
        for shape in (places, own)
    )
    numbers = added("Range", [zero.outputs[0], count.outputs[0], one.outputs[0]])
    last = added("Sub", [rows.outputs[0], one.outputs[0]])
    at = added("Min", [numbers.outputs[0], last.outputs[0]])
    picked = added("Gather", [value, at.outputs[0]], {"axis": 0})
    return picked.outputs[0], [zero, one, places, own, count, rows, numbers, last, at, picked]


def _scalar(value: int) -> ir.Node:
    return added_constant(np.array(value, np.int64))


def unshaped(value: ir.Value, body: ir.Graph | Scope) -> ir.Value:
    """Return what was reshaped to a value."""
    return through(value, ["Reshape"], body)
