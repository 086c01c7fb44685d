"""Carried values that begin anew where a condition holds: ``s = a_i if c_i else s + b_i``.

Between two such places they keep what they have, or are a running total. The conditions and the
values that they take do not depend on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.common.masks import choice, flag_of, less_than_one, neutral_value
from passes.carried.common.selections import BranchReader, Selection, find_selection, hoist
from passes.carried.joined import Joined
from passes.carried.pattern import Term, path_through
from passes.carried.totals.filled import RunningPattern, begun, filled, totals
from passes.carried.totals.reductions import FAMILIES, TYPES
from passes.carried.totals.totals import rounds_in_order
from passes.graph.made import either_order, made_by, operand, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["Resets", "find_resets"]


@dataclasses.dataclass(frozen=True)
class Resets(RunningPattern):
    """A carried value that begins anew where a condition holds.

    Attributes:
        terms: The condition; what the value is where it holds, or what is joined where it does
            not.
        family: The operator that joins two totals; empty where the value stays as it is.
        name: What the report calls it.
        dtype: Its element type.
    """

    family: str
    name: str
    dtype: ir.DataType
    keeps_shape = "by its terms"

    @property
    def rounds(self) -> bool:  # type: ignore[override]
        """Whether the order of the operations changes the result."""
        return rounds_in_order(self.family, self.dtype)

    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial value and the values of all iterations."""
        given = begun(joined, self.carried, 0, 1)
        if not self.family:
            return filled(joined.builder, given)
        return totals(joined, self.carried, given, self.family, self.dtype)


def find_resets(carried: Carried, iteration: Iteration, typing: Typing) -> Resets | None:
    """Return where a carried value begins anew, None if it does not, or is more than that."""
    dtype = typing.dtype(carried.initial)
    if dtype is None:
        return None
    reader = _ResetReader(carried.inner, iteration.body, dtype, typing)
    part = reader.read(carried.next)
    if part is None or part.anew is None:
        return None
    family = reader.family or ""
    if family and (part.term is None or dtype not in TYPES[family]):
        return None
    flag, row = part.anew
    if part.term is not None:
        row = reader.chosen(flag, row, part.term)
    name = "last value where a condition holds"
    if family:
        name = f"carried {reader.name} that begins anew"
    terms, nodes = (Term(flag), Term(row)), tuple(reader.nodes)
    return Resets(
        carried, terms, family, name, dtype, nodes=nodes, speculated=tuple(reader.speculated)
    )


@dataclasses.dataclass(frozen=True)
class _Part:
    """What a value of the body is: the old one and a term, or something new where a flag holds.

    Attributes:
        anew: The flag, and what the value is where it holds; None where it never begins anew.
        term: What is joined to the old one, if anything.
    """

    anew: tuple[ir.Value, ir.Value] | None = None
    term: ir.Value | None = None


class _ResetReader(BranchReader):
    """Reads what a value of the body is of a carried one, and makes the nodes that say it."""

    def __init__(
        self, inner: ir.Value, body: ir.Graph, dtype: ir.DataType, typing: Typing
    ) -> None:
        super().__init__(inner, body)
        self.family: str | None = None
        self.name = ""
        self.speculated: list[tuple[ir.Node, ir.Node]] = []
        self._dtype = dtype
        self._typing = typing

    def read(self, value: ir.Value) -> _Part | None:
        """Return what a value is, None if it is anything else."""
        value = skip_identities(value)
        if value is self.inner:
            return _Part()
        if value not in self.dependent:
            return None
        graph = next((g for g in self.scope.graphs if made_by(value, body=g) is not None), None)
        if graph is None:
            return None
        selection = find_selection(value, graph)
        if selection is not None:
            return self._chosen(selection)
        masked = self._masked(value, graph)
        return self._joined(value, graph) if masked is None else masked

    def chosen(self, flag: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        """Make a choice and return its output."""
        self.nodes += choice(flag, one, other, self._dtype)
        return self.nodes[-1].outputs[0]

    def _chosen(self, selection: Selection) -> _Part | None:
        """Return the pattern of a choice with one side that is free of the carried value."""
        if selection.condition in self.dependent:
            return None
        self.enter(selection)
        sides = (selection.chosen, selection.other)
        keeps, keeps_other = (side in self.dependent for side in sides)
        if keeps == keeps_other:
            return None
        own, other = sides if keeps else sides[::-1]
        (new,) = self._outside([other])
        part = self.read(own)
        if part is None:
            return None
        (condition,) = self._outside([selection.condition])
        if selection.is_whole:
            condition, beside = flag_of(condition)
            self.nodes += beside
        flag = self.made("Not", condition) if keeps else condition
        return self._begins(part, flag, new)

    def _masked(self, value: ir.Value, graph: ir.Graph) -> _Part | None:
        """Return what an integer is that is multiplied by a flag, or by 1 less a flag."""
        if self._dtype not in (ir.DataType.INT32, ir.DataType.INT64):
            return None
        for own, factor in either_order(made_by(value, "Mul", body=graph)):
            weight = less_than_one(factor)
            is_turned = weight is not None
            cast = made_by(factor if weight is None else weight, "Cast")
            flag = None if cast is None else operand(cast, 0)
            if flag is None or self._typing.dtype(flag) != ir.DataType.BOOL:
                continue
            if flag in self.dependent or skip_identities(own) is self.inner:
                continue
            part = self.read(own)
            if part is None:
                return None
            (condition,) = self._outside([flag])
            zero, nodes = neutral_value(self.inner, "Add", self._dtype, is_scalar=False)
            self.nodes += nodes
            gone = condition if is_turned else self.made("Not", condition)
            return self._begins(part, gone, zero)
        return None

    def _begins(self, part: _Part, flag: ir.Value, new: ir.Value) -> _Part:
        """Return a part that is something new where a flag holds."""
        if part.anew is None:
            return _Part((flag, new), part.term)
        before, fixed = part.anew
        fixed = self.chosen(flag, new, fixed)
        return _Part((self.made("Or", flag, before), fixed), part.term)

    def _joined(self, value: ir.Value, graph: ir.Graph) -> _Part | None:
        """Return what a value is that is joined to others."""
        node = made_by(value, *FAMILIES, body=graph)
        path = None if node is None else path_through(node, self.dependent)
        if node is None or path is None:
            return None
        family, name = FAMILIES[node.op_type]
        at, others = path
        if self.family not in (None, family) or not others or (node.op_type == "Sub" and at):
            return None
        self.family, self.name = family, name
        part = self.read(operand(node, at))
        if part is None:
            return None
        for term in self._outside(others):
            part = self._with(part, node.op_type, term)
        return part

    def _with(self, part: _Part, op_type: str, term: ir.Value) -> _Part:
        assert self.family is not None
        join = op_type if op_type == "Sub" else self.family
        anew = part.anew and (part.anew[0], self.made(join, part.anew[1], term))
        if part.term is not None:
            return _Part(anew, self.made(join, part.term, term))
        own = self.made("Neg", term) if op_type == "Sub" else term
        return _Part(anew, own)

    def _outside(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Return values of branches as they are known outside of them."""
        found, nodes, pairs = hoist(values, self.branches)
        self.nodes += nodes
        self.speculated += pairs
        return found
