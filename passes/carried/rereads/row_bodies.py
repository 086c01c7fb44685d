"""The body that computes one row of a carried tensor, made of one that computes all rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.carried.common.masks import choice
from passes.carried.common.row_reads import needed_for, row_number, takes_all
from passes.carried.common.uniform import one_number
from passes.carried.pattern import added, added_integers, branch_of
from passes.carried.places.columns import find_columns, is_last_axis
from passes.carried.places.whole_writes import writes_all_at
from passes.graph.builder import END
from passes.graph.graphs import is_default_domain, is_operator, reads_of, subgraphs
from passes.graph.made import axes_of, made_by, operand, skip_identities, takes_whole_shape
from passes.graph.node_copies import copy_node, copy_of
from passes.graph.scopes import Scope
from passes.numbers.integers import Linear
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["NotOwnRowError", "RowBody"]


class NotOwnRowError(Exception):
    """An iteration does something to a carried tensor that a row does not tell."""


@dataclasses.dataclass
class _Known:
    """What takes the place of values: rows that of tensors.

    Attributes:
        values: The copies of other values.
        rows: The row of each tensor: what is carried, and what it is behind a write.
    """

    values: dict[ir.Value, ir.Value | None]
    rows: dict[ir.Value, ir.Value]

    def inner(self) -> _Known:
        """Return the same for a branch."""
        return _Known(dict(self.values), dict(self.rows))

    def of(self, value: ir.Value) -> ir.Value:
        """Return what takes the place of a value, or the value."""
        return copy_of(self.values, value)


class RowBody:
    """Copies what an iteration does to a tensor, with its row in the place of the tensor."""

    def __init__(
        self, carried: Carried, index: Linear, axis: int, facts: LoopFacts, typing: Typing
    ) -> None:
        """Set up the work.

        Args:
            carried: The carried tensor.
            index: The number of the row.
            axis: The axis that rows are numbered along.
            facts: The Loop or Scan.
            typing: The proven typing; it gains what is copied.
        """
        self._carried, self._index, self._facts, self._typing = carried, index, facts, typing
        self._axis = axis
        whole = added("Shape", [carried.inner])
        nodes = _row_shape(whole.outputs[0], axis, typing.dims(carried.initial) or ())
        self._shape, self._row_shape = whole.outputs[0], nodes[-1].outputs[0]
        self._shapes = [whole, *nodes]
        self.between: list[ir.Value] = []

    def written(self, row: ir.Value, nodes: Sequence[ir.Node]) -> tuple[ir.Value, list[ir.Node]]:
        """Return the row behind an iteration, and what computes it.

        Args:
            row: The row in front of it.
            nodes: The nodes of the body that it depends on and that depend on the tensor.

        Raises:
            NotOwnRowError: An iteration reads, or writes to, another row.
        """
        known = _Known({}, {self._carried.inner: row})
        made = self._copy(nodes, known, (self._facts.iteration.body,))
        self.between = [v for v in known.rows if v not in (self._carried.inner, row)]
        return _row(known, self._carried.next), [*self._shapes, *made]

    def _copy(
        self, nodes: Iterable[ir.Node], known: _Known, graphs: tuple[ir.Graph, ...]
    ) -> list[ir.Node]:
        """Return the copies of nodes, in order."""
        made: list[ir.Node] = []
        for node in nodes:
            read = {skip_identities(v) for v in reads_of(node)}
            is_met = any(v in known.rows for v in read)
            if is_met and not is_default_domain(node):
                raise NotOwnRowError
            if is_operator(node, "If"):
                made.append(self._branches(node, known, graphs))
            elif not is_met:
                made.append(self._plain(node, known))
            else:
                made += self._on_tensor(node, known, graphs)
        return made

    def _plain(self, node: ir.Node, known: _Known) -> ir.Node:
        copy = copy_node(node, known.values)
        for new, old in zip(copy.outputs, node.outputs, strict=True):
            self._typing.set(new, self._typing[old])
            self._facts.evaluator.known[new] = self._facts.evaluator.of(old)
        return copy

    def _on_tensor(
        self, node: ir.Node, known: _Known, graphs: tuple[ir.Graph, ...]
    ) -> list[ir.Node]:
        """Return what a node that reads the tensor is for its row."""
        inputs = [v for v in node.inputs if v is not None]
        whole = known.rows.get(skip_identities(inputs[0]))
        out = node.outputs[0]
        match node.op_type:
            case "Identity" if whole is not None:
                known.rows[out] = whole
                return []
            case "Shape" if takes_whole_shape(node):
                known.values[out] = self._shape
                return []
            case "Gather" if whole is not None and self._is_own(node):
                known.values[out] = whole
                return []
            case "Slice" if whole is not None and takes_all(node, self._facts.evaluator):
                known.rows[out] = whole
                return []
            case "Slice" if whole is not None and self._is_own(node) and self._is_unwrapped(out):
                first = added_integers(self._axis)
                row = added("Unsqueeze", [whole, first.outputs[0]])
                known.values[out] = row.outputs[0]
                return [first, row]
            case "ScatterND" | "ScatterElements" if whole is not None and not self._meets(
                inputs[1:], known
            ):
                made = self._scatter(node, whole, known, graphs)
            case "Where" if self._typing.dims(inputs[0]) == () and not self._meets(
                inputs[:1], known
            ):
                sides = [_row(known, v) for v in inputs[1:]]
                made = self._chosen(known.of(inputs[0]), sides)
            case _:
                raise NotOwnRowError
        known.rows[out] = made[-1].outputs[0]
        return made

    def _chosen(self, flag: ir.Value, sides: Sequence[ir.Value]) -> list[ir.Node]:
        dtype = self._typing.dtype(self._carried.initial)
        if dtype is None:
            raise NotOwnRowError
        return choice(flag, sides[0], sides[1], dtype)

    def _meets(self, values: Iterable[ir.Value], known: _Known) -> bool:
        return any(skip_identities(v) in known.rows for v in values)

    def _is_own(self, node: ir.Node) -> bool:
        """Whether a Gather or a Slice reads the row of the iteration."""
        return row_number(node, self._facts.evaluator) == (self._axis, self._index)

    def _is_unwrapped(self, value: ir.Value) -> bool:
        """Whether the axis is removed wherever a value is read, which fails if it has no row."""
        rank = self._typing.rank(self._carried.initial) or 1
        uses = [use.node for use in value.uses()]
        return all(
            is_operator(node, "Squeeze")
            and self._axis in {axis % rank for axis in axes_of(node) or ()}
            for node in uses
        )

    def _scatter(
        self, node: ir.Node, row: ir.Value, known: _Known, graphs: tuple[ir.Graph, ...]
    ) -> list[ir.Node]:
        """Return what writes to the row what a ScatterND writes to the tensor."""
        _, places, updates = (v for v in node.inputs if v is not None)
        if self._axis or node.op_type == "ScatterElements":
            return self._whole(node, known, Scope(graphs))
        number, named = self._first_column(places, Scope(graphs))
        if number != self._index:
            raise NotOwnRowError
        new = known.of(updates)
        if named > 1:
            ends = [added_integers(1), added_integers(END), added_integers(-1)]
            bounds = [end.outputs[0] for end in ends]
            rest = added("Slice", [known.of(places), *bounds])
            attributes = dict(node.attributes)
            return [*ends, rest, added("ScatterND", [row, rest.outputs[0], new], attributes)]
        if node.attributes.get_string("reduction", "none") != "none":
            raise NotOwnRowError
        return [added("Reshape", [new, self._row_shape], {"allowzero": 1})]

    def _whole(self, node: ir.Node, known: _Known, scope: Scope) -> list[ir.Node]:
        """Return what a scatter makes of the row if it writes all of it."""
        initial, at = self._carried.initial, (self._axis, self._index)
        if not writes_all_at(node, at, known.rows, initial, scope, self._facts.evaluator):
            raise NotOwnRowError
        new = known.of(operand(node, 2))
        return [added("Reshape", [new, self._row_shape], {"allowzero": 1})]

    def _first_column(self, places: ir.Value, scope: Scope) -> tuple[Linear | None, int]:
        """Return the row of places, if they have one, and along how many axes they are named."""
        evaluator = self._facts.evaluator
        number, dims = evaluator.number(places), evaluator.dims(places)
        if number is not None and dims and dims[-1] == 1:
            return number, 1
        columns = find_columns(places, scope, evaluator)
        if columns is not None:
            return columns[0].start if columns[0].is_point else None, len(columns)
        node = made_by(places, "Concat", body=scope)
        first = None if node is None else evaluator.dims(node.inputs[0])
        if node is None or not dims or not first:
            raise NotOwnRowError
        is_last = is_last_axis(node.attributes.get_int("axis", 0), len(dims))
        if not is_last or first[-1] != 1 or not isinstance(dims[-1], int):
            raise NotOwnRowError
        return one_number(operand(node, 0), evaluator), dims[-1]

    def _branches(self, node: ir.Node, known: _Known, graphs: tuple[ir.Graph, ...]) -> ir.Node:
        """Return an If whose branches yield a row in the place of a tensor."""
        condition = operand(node, 0)
        if self._meets([condition], known):
            raise NotOwnRowError
        kept = [at for at, value in enumerate(node.outputs) if self._is_read(value)]
        made, rows = {}, []
        for name, graph in subgraphs(node):
            if graph.initializers:
                raise NotOwnRowError
            own = known.inner()
            outputs = [graph.outputs[at] for at in kept]
            inside = needed_for(outputs, graph)
            copies = self._copy(inside, own, (*graphs, graph))
            rows.append([skip_identities(v) in own.rows for v in outputs])
            values = [
                _row(own, v) if is_row else own.of(v)
                for v, is_row in zip(outputs, rows[-1], strict=True)
            ]
            made[name] = branch_of(name, copies, values)
        if rows[0] != rows[1]:
            raise NotOwnRowError
        new = added("If", [known.of(condition)], made, outputs=len(kept))
        for at, value, is_row in zip(kept, new.outputs, rows[0], strict=True):
            (known.rows if is_row else known.values)[node.outputs[at]] = value
        return new

    def _is_read(self, value: ir.Value) -> bool:
        """Whether a result of an If is more than what becomes of another carried value."""
        if skip_identities(self._carried.next) is value:
            return True
        return any(True for _ in value.uses())


def _row_shape(shape: ir.Value, axis: int, dims: Sequence[int | str | None]) -> list[ir.Node]:
    """Return nodes; the last one computes all dimensions of a shape but one."""
    others = [at for at, _ in enumerate(dims) if at != axis]
    known = [dim for at in others if isinstance(dim := dims[at], int)]
    if len(known) == len(others):
        return [added_integers(*known)]
    if not axis:
        ends = [added_integers(1), added_integers(END)]
        return [*ends, added("Slice", [shape, *(node.outputs[0] for node in ends)])]
    rest = added_integers(*others)
    return [rest, added("Gather", [shape, rest.outputs[0]], {"axis": 0})]


def _row(known: _Known, value: ir.Value) -> ir.Value:
    """Return the row of a tensor.

    Raises:
        NotOwnRowError: It has none.
    """
    row = known.rows.get(skip_identities(value))
    if row is None:
        raise NotOwnRowError
    return row
