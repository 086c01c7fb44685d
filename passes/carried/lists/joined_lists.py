"""Lists of pieces of any sizes that are only joined: ``torch.cat`` of what a Loop appended.

A list that begins with ``a`` and gains ``b0`` and ``b1`` is joined to ``a b0 b1``, and so is the
list of ``a`` and the pieces ``b0 b1`` as one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.common.selections import Selection, find_selection, hoist
from passes.carried.joined import Joined, same_dims
from passes.carried.lists.appends import fitting_rows
from passes.carried.lists.joined_elements import first_elements
from passes.carried.pattern import (
    Pattern,
    Term,
    added,
    added_constant,
    branch_of,
    dependent_values,
)
from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.graph.scopes import Scope
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["JoinedList", "find_joined_list"]


@dataclasses.dataclass(frozen=True)
class JoinedList(Pattern):
    """A carried sequence that gains pieces at its end, and is only read to join them.

    Attributes:
        terms: The piece, or none of its rows where an iteration adds nothing.
        axis: Along which axis all are joined.
    """

    axis: int
    name = "pieces of a list"
    grows = True
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record a list of the first elements and of all pieces as one."""
        builder, (rows,), (known,) = joined.builder, joined.values, joined.types
        first = first_elements(self.carried.initial) or []
        if first and known.dims is not None:
            whole = (
                first[0] if len(first) == 1 else builder.op("Concat", first, {"axis": self.axis})
            )
            rows = fitting_rows(joined, whole, rows, known.dims, self.axis)
        return builder.op("SequenceConstruct", [*first, rows])


def find_joined_list(carried: Carried, iteration: Iteration, typing: Typing) -> JoinedList | None:
    """Return the pieces that a list gains; None for others, and where all elements are alike."""
    axis = _joined_along(carried.result)
    if axis is None or first_elements(carried.initial) is None:
        return None
    reader = _PieceReader(carried, axis, iteration.body, typing)
    part = reader.read(carried.next, ())
    if part is None or part.piece is None or not reader.differ:
        return None
    terms = (Term(part.piece, "concatenated", axis),)
    return JoinedList(carried, terms, axis, nodes=tuple(part.nodes))


@dataclasses.dataclass(frozen=True)
class _Gained:
    """What a value has more than the carried list: a piece, and its nodes; or nothing."""

    nodes: list[ir.Node]
    piece: ir.Value | None


class _PieceReader:
    """Reads what an iteration adds to a list, in branches too, as one piece.

    Attributes:
        differ: Whether pieces were met that may differ in size, or from a first element.
    """

    def __init__(self, carried: Carried, axis: int, body: ir.Graph, typing: Typing) -> None:
        self.differ = False
        self._carried, self._axis, self._body, self._typing = carried, axis, body, typing

    def read(self, value: ir.Value, branches: tuple[ir.Graph, ...]) -> _Gained | None:
        """Return what a value has more; None if it is anything but the list and more pieces."""
        value = skip_identities(value)
        if value is self._carried.inner:
            return _Gained([], None)
        scope = Scope((self._body, *branches))
        mask = find_selection(value, scope)
        if mask is not None:
            return self._of_branches(mask, branches)
        insert = made_by(value, "SequenceInsert", body=scope)
        if insert is None or len(operands(insert)) != 2:
            return None
        before, element = self.read(operand(insert, 0), branches), operand(insert, 1)
        if before is None or element in self._dependent(branches):
            return None
        self.differ |= self._differs(element)
        (piece,), nodes = self._outside(element, branches)
        if before.piece is None:
            return _Gained(nodes, piece)
        both = added("Concat", [before.piece, piece], {"axis": self._axis})
        return _Gained([*before.nodes, *nodes, both], both.outputs[0])

    def _of_branches(self, mask: Selection, branches: tuple[ir.Graph, ...]) -> _Gained | None:
        """Return an If that yields what each of its branches adds."""
        if not mask.branches or mask.condition in self._dependent(branches):
            return None
        inside = (*branches, *mask.branches)
        parts = [self.read(value, inside) for value in (mask.chosen, mask.other)]
        one, other = parts
        if one is None or other is None:
            return None
        if one.piece is None and other.piece is None:
            return one
        graphs = []
        for part, beside in ((one, other), (other, one)):
            full = part if part.piece is not None else self._none(beside.piece)
            if full is None or full.piece is None:
                return None
            graphs.append(branch_of("piece", full.nodes, [full.piece]))
        (condition,), nodes = self._outside(mask.condition, branches)
        made = added("If", [condition], {"then_branch": graphs[0], "else_branch": graphs[1]})
        return _Gained([*nodes, made], made.outputs[0])

    def _differs(self, piece: ir.Value) -> bool:
        """Whether pieces have an axis to join, and may differ in it, or from a first element."""
        dims, first = self._typing.dims(piece), first_elements(self._carried.initial)
        if dims is None or self._axis >= len(dims):
            return False
        return not all(isinstance(d, int) for d in dims) or not all(
            same_dims(self._typing, value, dims) for value in first or ()
        )

    def _none(self, piece: ir.Value | None) -> _Gained | None:
        """Return none of the rows that a piece has."""
        nodes = None if piece is None else _no_rows(self._carried, piece, self._axis, self._typing)
        return None if nodes is None else _Gained(nodes, nodes[-1].outputs[0])

    def _dependent(self, branches: tuple[ir.Graph, ...]) -> set[ir.Value]:
        return dependent_values(Scope((self._body, *branches)), self._carried.inner)

    def _outside(
        self, value: ir.Value, branches: tuple[ir.Graph, ...]
    ) -> tuple[list[ir.Value], list[ir.Node]]:
        """Return a value of branches as it is known outside of them, and what computes it."""
        found, nodes, pairs = hoist([value], branches)
        for copy, node in pairs:
            for new, old in zip(copy.outputs, node.outputs, strict=True):
                self._typing.set(new, self._typing[old])
        return found, nodes


def _joined_along(result: ir.Value | None) -> int | None:
    """Return the axis along which all readers join the elements of a list, and of longer ones."""
    found: list[ir.Node] = []
    waiting = [] if result is None else [result]
    while waiting:
        held = waiting.pop()
        if held.is_graph_output() or not held.uses():
            return None
        for node, position in held.uses():
            if is_operator(node, "SequenceInsert") and len(node.inputs) == 2 and not position:
                waiting.append(node.outputs[0])
            elif is_operator(node, "ConcatFromSequence"):
                found.append(node)
            else:
                return None
    if any(node.attributes.get_int("new_axis", 0) for node in found):
        return None
    axes = {node.attributes.get_int("axis", 0) for node in found}
    (axis,) = axes if len(axes) == 1 else (-1,)
    return axis if axis >= 0 else None


def _no_rows(carried: Carried, piece: ir.Value, axis: int, typing: Typing) -> list[ir.Node] | None:
    """Return nodes; the last one yields a piece of no rows. None if its size is unknown."""
    first, dims, dtype = first_elements(carried.initial), typing.dims(piece), typing.dtype(piece)
    if first:
        zero, along = (added_constant(np.array([n], np.int64)) for n in (0, axis))
        none = added("Slice", [first[0], *(n.outputs[0] for n in (zero, zero, along))])
        return [zero, along, none]
    others = [] if dims is None else [d for i, d in enumerate(dims) if i != axis]
    sizes = [d for d in others if isinstance(d, int)]
    if dims is None or dtype is None or len(sizes) < len(others):
        return None
    return [added_constant(np.zeros([*sizes[:axis], 0, *sizes[axis:]], dtype.numpy()))]
