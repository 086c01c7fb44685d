"""Tensors that grow: ``acc = Concat(acc, f(x_i))``, along any axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.joined import Joined, same_dims, unknown_rank
from passes.carried.pattern import Pattern, Term, added, dependent_values, path_through
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import axes_of, made_by, operand, skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried

__all__ = [
    "ConcatAppend",
    "find_append",
    "fitting_rows",
    "has_no_rows",
    "like_initial",
    "rows_of",
    "unsqueezed",
]


@dataclasses.dataclass(frozen=True)
class ConcatAppend(Pattern):
    """A carried tensor that each iteration joins to what it computes, behind it.

    Attributes:
        terms: What is appended, as one tensor.
        axis: Along which axis.
    """

    axis: int
    name = "carried Concat"
    grows = True
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record the rows of all iterations behind the initial ones."""
        initial, (rows,), (known,) = self.carried.initial, joined.values, joined.types
        around = joined.typing.dims(initial)
        dims = None if known.dims is None else list(known.dims)
        if dims is not None and self.terms[0].kind == "stacked":
            dims.insert(self.axis % (len(dims) + 1), 1)
        if around is None or dims is None or len(around) != len(dims):
            raise unknown_rank(self.carried)
        axis = self.axis % len(around)
        rows = fitting_rows(joined, initial, rows, dims, axis)
        if has_no_rows(initial, axis):
            return rows
        return joined.builder.op("Concat", [initial, rows], {"axis": axis})


def fitting_rows(
    joined: Joined, initial: ir.Value, rows: ir.Value, dims: Sequence[int | str | None], axis: int
) -> ir.Value:
    """Return the rows of all iterations; if there are none, with an initial value's dimensions.

    Args:
        joined: What is known of all iterations.
        initial: The initial value.
        rows: What stands beside it along an axis.
        dims: What is known of the dimensions of these rows, which are as many.
        axis: The axis.
    """
    if joined.runs or same_dims(joined.typing, initial, dims, axis):
        return rows
    return like_initial(joined.builder, initial, rows, len(dims), axis)


def has_no_rows(initial: ir.Value, axis: int) -> bool:
    """Whether a tensor is made with no rows along an axis."""
    value = skip_identities(initial)
    array, made = constant_value(value), made_by(value, "ConstantOfShape")
    if array is not None:
        return array.shape[axis : axis + 1] == (0,)
    shape = None if made is None else constant_value(made.inputs[0])
    return shape is not None and shape[axis : axis + 1].tolist() == [0]


def like_initial(
    builder: Builder, initial: ir.Value, rows: ir.Value, rank: int, axis: int
) -> ir.Value:
    """Record rows with the other dimensions of an initial value where there are none.

    No iteration tells them then: a map without samples may yield 0 for each.

    Args:
        builder: Records the nodes.
        initial: What the value begins with.
        rows: The rows of all iterations.
        rank: The rank of both.
        axis: The axis that grows, from the front.
    """
    own = builder.op("Shape", [rows])
    count = builder.op("Gather", [own, builder.ints(axis)], {"axis": 0})
    is_empty = builder.op("Equal", [count, builder.ints(0)])
    other = builder.op("Shape", [initial])
    is_axis = builder.constant(np.arange(rank) == axis)
    other = builder.op("Where", [is_axis, count, other])
    shape = builder.op("Where", [is_empty, other, own])
    return builder.op("Reshape", [rows, shape], {"allowzero": 1})


def find_append(carried: Carried, body: ir.Graph | Scope) -> ConcatAppend | None:
    """Return what a carried tensor gains, None if it does not gain rows at its end only."""
    dependent = dependent_values(body, carried.inner)
    value = skip_identities(carried.next)
    parts: list[ir.Value] = []
    axes = set()
    while value is not carried.inner:
        node = made_by(value, "Concat", body=body)
        path = None if node is None else path_through(node, dependent)
        if node is None or path is None or path[0] != 0:
            return None
        axes.add(node.attributes.get_int("axis", 0))
        parts[:0] = path[1]
        value = skip_identities(operand(node, 0))
    if len(axes) != 1 or not parts:
        return None
    (axis,) = axes
    term, nodes = rows_of(parts, body, axis)
    return ConcatAppend(carried, (term,), axis, nodes=nodes)


def rows_of(
    parts: Sequence[ir.Value], body: ir.Graph | Scope, axis: int
) -> tuple[Term, tuple[ir.Node, ...]]:
    """Return the rows of one iteration, which are joined of some parts, and what joins them."""
    nodes = (added("Concat", parts, {"axis": axis}),) if len(parts) > 1 else ()
    value = nodes[0].outputs[0] if nodes else parts[0]
    row = unsqueezed(value, body, axis)
    term = Term(value, "concatenated", axis) if row is None else Term(row, "stacked", axis)
    return term, nodes


def unsqueezed(value: ir.Value, body: ir.Graph | Scope, axis: int) -> ir.Value | None:
    """Return what gains an axis of size 1 to become a value; None if it gains none there.

    Rows of one shape are stacked, which a loop of any kind does without an If.
    """
    node = made_by(value, "Unsqueeze", body=body)
    return operand(node, 0) if node is not None and axes_of(node) == [axis] else None
