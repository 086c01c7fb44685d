"""Tensors written at an index of the iteration: ScatterND and ScatterElements."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, Literal

import onnx_ir as ir

from passes.carried.coordinate_ranges import Reach, own_coordinate, own_span
from passes.carried.counted_places import names_new_places
from passes.carried.joined import Joined
from passes.carried.joined_places import Places
from passes.carried.pattern import ASK_SHAPE, FLOATS, Pattern, Term, dependent_values
from passes.carried.read_back import find_elements_back, find_read_back
from passes.carried.row_shapes import are_numbers, as_rows_of
from passes.carried.shared_coordinates import shared_coordinate
from passes.carried.slice_writes import SliceWrite, find_slice_write
from passes.carried.uniform import one_number
from passes.decisions import Code
from passes.graph.made import made_by, operand, operands, shaped, skip_identities
from passes.graph.scopes import Scope
from passes.reading.facts import LoopFacts
from passes.reading.integers import TRIP, Linear
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.reading.number_order import is_nonnegative

__all__ = ["Write", "find_write", "is_distinct", "placed_terms", "scattered_terms"]

_SCATTERS = frozenset({"ScatterND", "ScatterElements"})
_Dims = tuple[int | str | None, ...]


@dataclasses.dataclass(frozen=True)
class Write(Pattern):
    """A carried tensor that each iteration writes to.

    Attributes:
        carried: Where it stands.
        terms: The indices and the updates.
        node: The node that writes.
        index: The number at which an iteration writes; None where any order is right.
        reduction: How it is joined to what is there.
        rounds: Whether the order of the writes changes the result.
        nodes: What computes updates that the body itself does not compute.
        width: How many positions from that number on one iteration may write to.
        named: Along how many axes places are named, if they are a list of places.
    """

    carried: Carried
    terms: tuple[Term, ...]
    node: ir.Node
    index: Linear | None
    reduction: str = "none"
    rounds: bool = False
    nodes: tuple[ir.Node, ...] = ()
    width: int = 1
    named: int | None = None
    name = "carried write by index"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record one scatter of all updates onto the initial tensor."""
        if self.index is not None and not self._is_distinct(joined):
            detail = f"two iterations may write to one place of '{self.carried.inner.name}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.node)
        tensor, indices, updates = self.carried.initial, joined.values[0], self._updates(joined)
        if self.reduction == "none":
            attributes: dict[str, Any] = dict(self.node.attributes)
            return joined.builder.op(self.node.op_type, [tensor, indices, updates], attributes)
        if joined.typing.dtype(tensor) != ir.DataType.FLOAT16:
            return self._joined(joined, tensor, indices, updates)
        # onnxruntime has no scatter that joins halves
        wide = [
            joined.builder.op("Cast", [value], {"to": int(ir.DataType.FLOAT)})
            for value in (tensor, updates)
        ]
        made = self._joined(joined, wide[0], indices, wide[1])
        return joined.builder.op("Cast", [made], {"to": int(ir.DataType.FLOAT16)})

    def _updates(self, joined: Joined) -> ir.Value:
        """Return the updates of all iterations; those of none have the dimensions of the tensor.

        Where samples differ in shape, a map without samples yields 0 for each dimension.
        """
        updates, dims = joined.values[1], joined.types[1].dims
        rank = joined.typing.rank(self.carried.initial)
        if joined.runs or dims is None or are_numbers(dims) or rank is None:
            return updates
        is_listed = len(dims) + (self.terms[1].kind == "stacked") == rank
        if self.node.op_type != "ScatterND" or not is_listed:
            return updates
        return as_rows_of(joined.builder, self.carried.initial, updates, 1)

    def _joined(
        self, joined: Joined, tensor: ir.Value, indices: ir.Value, updates: ir.Value
    ) -> ir.Value:
        """Record how the updates of all iterations are joined, some perhaps to one place."""
        if self.node.op_type == "ScatterND":
            return self._joined_rows(joined, tensor, indices, updates)
        builder, dtype = joined.builder, joined.typing.dtype(self.carried.initial)
        is_extreme = self.reduction in ("max", "min") and dtype in FLOATS
        if is_extreme and not self._is_of_node:  # elements of a vector
            listed = builder.op("Unsqueeze", [indices, builder.ints(-1)])
            places = Places.of(builder, tensor, 1, listed, 1, is_list=True)
            return places.join(tensor, updates, self.reduction, dtype)
        attributes: dict[str, Any] = dict(self.node.attributes) | {"reduction": self.reduction}
        return joined.builder.op("ScatterElements", [tensor, indices, updates], attributes)

    def _joined_rows(
        self, joined: Joined, tensor: ir.Value, indices: ir.Value, updates: ir.Value
    ) -> ir.Value:
        """Record how rows are joined by the numbers of their places."""
        typing, initial, dims = joined.typing, self.carried.initial, joined.types[0].dims
        rank = typing.rank(initial)
        named = _named_axes(rank, dims, joined.types[1].dims if self._is_of_node else None)
        if named is None or rank is None or not 1 <= named <= rank:
            detail = f"'{self.carried.inner.name}' is joined to at places of several axes"
            raise NotAMapError(Code.RECURRENCE, detail, self.node)
        is_list = len(dims or ()) + (self.terms[0].kind == "stacked") == 2
        places = Places.of(joined.builder, tensor, rank, indices, named, is_list=is_list)
        if self._is_of_node:
            return places.scatter(tensor, updates, self.reduction)
        return places.join(tensor, updates, self.reduction, typing.dtype(initial))

    @property
    def _is_of_node(self) -> bool:
        """Whether the node that writes joins the updates itself."""
        return self.node.attributes.get_string("reduction", "none") == self.reduction

    def check_shape(self, joined: Joined) -> None:
        """What is written to keeps its shape."""

    def _is_distinct(self, joined: Joined) -> bool:
        """Whether no two iterations have one index; a negative one counts from the end."""
        assert self.index is not None
        return is_distinct(self.index, self.width, joined)


def _named_axes(rank: int | None, indices: _Dims | None, updates: _Dims | None) -> int | None:
    """Return along how many axes the indices of a ScatterND name places.

    Where their last dimension is no number, the ranks tell: an update has the axes of the indices
    but the last, then those of the tensor that are not named.
    """
    if indices and isinstance(indices[-1], int):
        return indices[-1]
    if rank is None or not indices or updates is None:
        return None
    return len(indices) - 1 + rank - len(updates)


def is_distinct(index: Linear, width: int, joined: Joined) -> bool:
    """Whether numbers from an index on, so many of them, are others in each iteration.

    Args:
        index: The first of them.
        width: How many there are.
        joined: Has the number of iterations.
    """
    step = index.coefficient(TRIP)
    if abs(step) < width:
        return False
    lowest = Linear(0) if step > 0 else joined.trips.bound - 1
    return is_nonnegative(index.replace({TRIP: lowest}))


def find_write(carried: Carried, facts: LoopFacts, dtype: ir.DataType | None) -> Write | None:
    """Return what a carried tensor is written with, None if that is not all that changes it."""
    body = facts.scope
    added = _added_scatter(carried, body)
    node = added or made_by(carried.next, *_SCATTERS, body=body)
    if node is None:
        return None
    data, indices, updates = operands(node)
    if added is None and skip_identities(data) is not carried.inner:
        return None
    dependent = dependent_values(body, carried.inner)
    reduction = node.attributes.get_string("reduction", "none")
    if added is not None:
        reduction = "add"
    elif node.op_type == "ScatterND" and reduction == "none":
        placed = find_slice_write(node, carried, facts)
        if placed is not None and _is_apart(placed, node, facts):
            return _placed(carried, node, placed, dependent, dtype)
    nodes: tuple[ir.Node, ...] = ()
    if updates in dependent and reduction == "none":
        joins = (
            find_read_back(node, carried.inner, body, facts.evaluator)
            if node.op_type == "ScatterND"
            else find_elements_back(node, carried.inner, body, facts.evaluator, dtype)
        )
        if joins is None:
            return None
        updates, reduction, nodes = joins.updates, joins.reduction, joins.nodes
    own: Reach | None = None
    if reduction == "none":
        own = _own_places(node, facts)
        if own is None:
            return None
    rounds = reduction in ("add", "mul") and dtype in FLOATS
    axis = node.attributes.get_int("axis", 0)
    if node.op_type == "ScatterND":
        terms = scattered_terms(node, updates, facts)
    else:
        terms = (Term(indices, "concatenated", axis), Term(updates, "concatenated", axis))
    index, width = (None, 1) if own is None else (own.first, own.width)
    return Write(carried, terms, node, index, reduction, rounds, nodes, width)


def _own_places(node: ir.Node, facts: LoopFacts) -> Reach | None:
    """Return the places along an axis that an iteration has for its own, if there are any."""
    indices, evaluator = operand(node, 1), facts.evaluator
    is_listed = node.op_type == "ScatterND"
    index = one_number(indices, evaluator)
    if index is None and is_listed:
        index = shared_coordinate(indices, evaluator)
    if index is not None:
        return Reach(index, 1) if index.coefficient(TRIP) else None
    return own_coordinate(indices, evaluator) if is_listed else own_span(indices, evaluator)


def _is_apart(placed: SliceWrite, node: ir.Node, facts: LoopFacts) -> bool:
    """Whether two iterations may write in any order, if what is known of the places holds."""
    if placed.index is not None or placed.reduction != "none":
        return True
    return any(names_new_places(point, node, facts) for point in placed.points)


def _placed(
    carried: Carried,
    node: ir.Node,
    placed: SliceWrite,
    dependent: Collection[ir.Value],
    dtype: ir.DataType | None,
) -> Write | None:
    """Return what is written to a grid of places, None if it depends on what was written."""
    terms = placed_terms(placed, dependent)
    if terms is None:
        return None
    rounds = placed.reduction in ("add", "mul") and dtype in FLOATS
    index = placed.index if placed.reduction == "none" else None
    how = (placed.reduction, rounds, placed.nodes, placed.width, placed.named)
    return Write(carried, terms, node, index, *how)


def placed_terms(placed: SliceWrite, dependent: Collection[ir.Value]) -> tuple[Term, ...] | None:
    """Return the places and the rows of a grid, None if they depend on what was written.

    Args:
        placed: What an iteration writes.
        dependent: The values that depend on what was written.
    """
    readers = (one for one in placed.nodes if one.op_type not in ASK_SHAPE)
    read = {v for one in readers for v in one.inputs if v is not None}
    if not (read | {placed.indices, placed.updates}).isdisjoint(dependent):
        return None
    is_cell = placed.named is not None and placed.kind == "stacked"
    values = (placed.indices, placed.updates)
    return tuple(Term(value, placed.kind, is_alike=is_cell) for value in values)


def scattered_terms(node: ir.Node, updates: ir.Value, facts: LoopFacts) -> tuple[Term, ...]:
    """Return the places and the rows of a ScatterND.

    Args:
        node: The node.
        updates: What it writes, or what that is computed of.
        facts: The Loop or Scan.
    """
    indices = operand(node, 1)
    is_list = facts.evaluator.rank(indices) == 2
    kind: Literal["stacked", "concatenated"] = "concatenated" if is_list else "stacked"
    return Term(indices, kind), Term(updates, kind)


def _added_scatter(carried: Carried, body: ir.Graph | Scope) -> ir.Node | None:
    """Return what scatters onto zeros of the shape of a carried value, and is added to it.

    TorchScript's exporter writes index_add so. No two updates of one iteration may go to one
    place, as ScatterElements has no order; so to add them is the same.
    """
    add = made_by(carried.next, "Add", body=body)
    given = [] if add is None else [skip_identities(v) for v in operands(add)]
    others = [v for v in given if v is not carried.inner]
    scatter = made_by(others[0], *_SCATTERS, body=body) if len(others) == 1 else None
    if scatter is None or scatter.attributes.get_string("reduction", "none") != "none":
        return None
    zeros = made_by(scatter.inputs[0], "ConstantOfShape", body=body)
    if zeros is None or shaped(zeros.inputs[0], body) is not carried.inner:
        return None
    filled = zeros.attributes.get("value")
    is_zero = filled is None or not filled.as_tensor().numpy().any()
    return scatter if is_zero else None
