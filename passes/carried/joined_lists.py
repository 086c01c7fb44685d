"""Lists of pieces of any sizes that are only joined: ``torch.cat`` of what a Loop appended.

A list that begins with ``a`` and gains ``b0`` and ``b1`` is joined to ``a b0 b1``, and so is the
list of ``a`` and the pieces ``b0 b1`` as one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.appends import fitting_rows
from passes.carried.filters import inserted_behind
from passes.carried.in_branch import in_branch
from passes.carried.pattern import Joined, Pattern, Term, added, dependent_values
from passes.carried.selections import Selection, find_selection, hoist
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operands, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["JoinedList", "find_joined_list"]


@dataclasses.dataclass(frozen=True)
class JoinedList(Pattern):
    """A carried sequence that gains pieces at its end, and is only read to join them.

    Attributes:
        carried: Where it stands.
        terms: The piece, or none of its rows where an iteration adds nothing.
        axis: Along which axis all are joined.
        nodes: What computes the piece beside the body.
    """

    carried: Carried
    terms: tuple[Term, ...]
    axis: int
    nodes: tuple[ir.Node, ...] = ()
    name = "pieces of a list"
    grows = True
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record a list of the first elements and of all pieces as one."""
        builder, (rows,), (known,) = joined.builder, joined.values, joined.types
        first = _first(self.carried)
        if first and known.dims is not None:
            whole = (
                first[0] if len(first) == 1 else builder.op("Concat", first, {"axis": self.axis})
            )
            rows = fitting_rows(joined, whole, rows, known.dims, self.axis)
        return builder.op("SequenceConstruct", [*first, rows])


def find_joined_list(carried: Carried, iteration: Iteration, typing: Typing) -> JoinedList | None:
    """Return the pieces that a list gains; None if it is anything else, or they are all alike."""
    axis = _joined_along(carried.result)
    value, body = skip_identities(carried.next), iteration.body
    mask = None if axis is None else find_selection(value, body)
    if axis is None or (mask is None and not _first(carried)):
        return None
    if mask is not None:
        if not mask.branches or mask.condition in dependent_values(body, carried.inner):
            return None
        of_branches = _of_some if carried.inner in (mask.chosen, mask.other) else _of_either
        return of_branches(carried, mask, axis, body, typing)
    piece = inserted_behind(carried, value, [body])
    if piece is None or not _differs(piece, axis, typing):
        return None
    return JoinedList(carried, (Term(piece, "concatenated", axis),), axis)


def _of_some(
    carried: Carried, mask: Selection, axis: int, body: ir.Graph, typing: Typing
) -> JoinedList | None:
    """Return what one branch of an If adds, where the other one adds nothing."""
    is_turned = mask.chosen is carried.inner
    value = mask.other if is_turned else mask.chosen
    piece = inserted_behind(carried, value, [body, *mask.branches])
    none = None if piece is None else _no_rows(carried, piece, axis, typing)
    if piece is None or none is None or not _differs(piece, axis, typing):
        return None
    (row,), copies, speculated = hoist([piece], mask.branches)
    made = in_branch(
        mask, row, copies, none[-1].outputs[0], speculated, typing, is_turned=is_turned
    )
    terms = (Term(made.outputs[0], "concatenated", axis),)
    return JoinedList(carried, terms, axis, (*none, made))


def _of_either(
    carried: Carried, mask: Selection, axis: int, body: ir.Graph, typing: Typing
) -> JoinedList | None:
    """Return what the branches of an If add, a piece each."""
    graphs = [body, *mask.branches]
    one, other = (inserted_behind(carried, v, graphs) for v in (mask.chosen, mask.other))
    if one is None or other is None:
        return None
    if not any(_differs(piece, axis, typing) for piece in (one, other)):
        return None
    (row,), copies, pairs = hoist([one], mask.branches)
    (other_row,), other_copies, other_pairs = hoist([other], mask.branches)
    made = in_branch(
        mask, row, copies, other_row, [*pairs, *other_pairs], typing, other_copies=other_copies
    )
    return JoinedList(carried, (Term(made.outputs[0], "concatenated", axis),), axis, (made,))


def _first(carried: Carried) -> list[ir.Value]:
    """Return the elements that a list begins with."""
    start = made_by(carried.initial, "SequenceConstruct")
    return [] if start is None else operands(start)


def _joined_along(result: ir.Value | None) -> int | None:
    """Return the axis along which all readers of a list join its elements."""
    if result is None or result.is_graph_output() or not result.uses():
        return None
    nodes = [node for node, _ in result.uses()]
    if not all(is_operator(node, "ConcatFromSequence") for node in nodes):
        return None
    if any(node.attributes.get_int("new_axis", 0) for node in nodes):
        return None
    axes = {node.attributes.get_int("axis", 0) for node in nodes}
    (axis,) = axes if len(axes) == 1 else (-1,)
    return axis if axis >= 0 else None


def _differs(piece: ir.Value, axis: int, typing: Typing) -> bool:
    """Whether pieces have an axis to join, and may differ in it."""
    dims = typing.dims(piece)
    return dims is not None and axis < len(dims) and not all(isinstance(d, int) for d in dims)


def _no_rows(carried: Carried, piece: ir.Value, axis: int, typing: Typing) -> list[ir.Node] | None:
    """Return nodes, the last of which yields no rows such as pieces have; None if unknown."""
    first, dims, dtype = _first(carried), typing.dims(piece), typing.dtype(piece)
    if first:
        zero, along = (_constant(np.array([n], np.int64)) for n in (0, axis))
        none = added("Slice", [first[0], *(n.outputs[0] for n in (zero, zero, along))])
        return [zero, along, none]
    others = [] if dims is None else [d for i, d in enumerate(dims) if i != axis]
    sizes = [d for d in others if isinstance(d, int)]
    if dims is None or dtype is None or len(sizes) < len(others):
        return None
    return [_constant(np.zeros([*sizes[:axis], 0, *sizes[axis:]], dtype.numpy()))]


def _constant(array: np.ndarray) -> ir.Node:
    return added("Constant", [], {"value": ir.tensor(array)})
