"""Carried booleans: whatever an iteration makes of one, it sets, clears, keeps or turns it.

``s = h_i or (s and l_i)`` is ``p_i`` where it was true and ``q_i`` where it was false; both are
known of all iterations at once. Where they agree it begins anew; behind that it is turned as
often as ``q_i and not p_i``. From false ``p = [1, 0, 0]``, ``q = [1, 1, 1]`` make ``[1, 0, 1]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from passes.carried.combined.find_conditional import reread
from passes.carried.common.in_branch import may_fail_apart
from passes.carried.common.masks import choice, flag_of
from passes.carried.common.outside import known_outside
from passes.carried.common.selections import BranchReader, Selection, find_selection, hoist
from passes.carried.joined import Joined
from passes.carried.pattern import Term, added_constant
from passes.carried.totals.filled import Begun, RunningPattern, expanded, filled
from passes.carried.totals.totals import truth_of
from passes.graph.builder import Builder
from passes.graph.made import made_by, only_number, operand, operands, skip_identities
from passes.graph.scopes import Scope
from passes.numbers.integer_reads import INTEGERS
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["CarriedFlag", "find_flag"]


@dataclasses.dataclass(frozen=True)
class CarriedFlag(RunningPattern):
    """A carried boolean.

    Attributes:
        terms: What an iteration makes of it where it is true, and where it is false.
    """

    name = "carried flag"
    keeps_shape = "by its terms"

    def recorded(self, joined: Joined) -> ir.Value:
        """Record the initial flag and the flags of all iterations."""
        self.check_shape(joined)
        builder, initial = joined.builder, self.carried.initial
        rank = joined.rank(initial)
        held, left = (expanded(joined, self.carried, at, rank) for at in (0, 1))
        first = builder.op("Unsqueeze", [initial, builder.ints(0)])
        begins = builder.op("Equal", [held, left])
        turns = builder.op("And", [left, builder.op("Not", [held])])
        odd = _parity(builder, _behind(builder, first, turns, is_true=False))
        values = builder.op("Concat", [first, held], {"axis": 0})
        marks = _behind(builder, first, begins, is_true=True)
        since = Begun(builder.op("Xor", [values, odd]), marks, rank, is_whole=rank == 0)
        return builder.op("Xor", [filled(builder, since), odd])


def _behind(builder: Builder, first: ir.Value, flags: ir.Value, *, is_true: bool) -> ir.Value:
    """Record flags behind a row of the shape of the first one, all true or all false."""
    same = builder.op("Xor", [first, first])
    row = builder.op("Not", [same]) if is_true else same
    return builder.op("Concat", [row, flags], {"axis": 0})


def _parity(builder: Builder, flags: ir.Value) -> ir.Value:
    """Record for each row whether an odd number of flags is true up to it."""
    numbers = builder.op("Cast", [flags], {"to": int(ir.DataType.INT64)})
    return truth_of(builder, builder.op("CumSum", [numbers, builder.scalar(0)]), "Xor")


def find_flag(carried: Carried, iteration: Iteration, typing: Typing) -> CarriedFlag | None:
    """Return what iterations make of a carried boolean; None if that is no formula of booleans."""
    if typing.dtype(carried.initial) != ir.DataType.BOOL:
        return None
    reader = _FlagReader(carried.inner, iteration.body, typing)
    made = [reader.value_where(carried.next, is_true) for is_true in (True, False)]
    found = [value for value in made if value is not None]
    if len(found) < len(made):
        return None
    instead = known_outside(reader.branches, Scope((iteration.body,)))
    values, copies, pairs = hoist(reader.leaves, reader.branches, instead)
    if may_fail_apart(pairs, typing):
        return None
    outside = dict(zip(reader.leaves, values, strict=True))
    for node in reader.nodes:
        reread(node, outside)
    terms = tuple(Term(outside.get(value, value)) for value in found)
    return CarriedFlag(carried, terms, nodes=(*copies, *reader.nodes), speculated=tuple(pairs))


class _FlagReader(BranchReader):
    """Writes what a boolean is where a carried one is true, or false.

    Attributes:
        leaves: The values that it reads, which do not depend on the carried one.
    """

    def __init__(self, inner: ir.Value, body: ir.Graph, typing: Typing) -> None:
        super().__init__(inner, body)
        self.leaves: list[ir.Value] = []
        self._typing = typing

    def value_where(self, value: ir.Value, is_true: bool) -> ir.Value | None:
        """Return what a value is where the carried one is true, or false; None if that is open."""
        found = self._read(value, is_true)
        return self._constant(found) if isinstance(found, bool) else found

    def _read(self, value: ir.Value, is_true: bool) -> ir.Value | bool | None:
        value = self._uncast(value)
        if value is self.inner:
            return is_true
        number = only_number(value)
        if isinstance(number, bool):
            return number
        if value not in self.dependent:
            self.leaves.append(value)
            return value
        selection = find_selection(value, self.scope)
        if selection is not None:
            return self._chosen(selection, is_true, self._read)
        weighed = self._weighed(value)
        if weighed is not None:
            return self._chosen(weighed, is_true, self._truth)
        node = made_by(value, "Not", "And", "Or", "Xor", body=self.scope)
        parts = [] if node is None else [self._read(v, is_true) for v in operands(node)]
        known = [part for part in parts if part is not None]
        if node is None or len(known) < len(parts):
            return None
        return self._not(known[0]) if node.op_type == "Not" else self._joined(node.op_type, *known)

    def _uncast(self, value: ir.Value) -> ir.Value:
        """Return the boolean that a boolean was cast from, or itself."""
        value = skip_identities(value)
        while (node := made_by(value, "Cast", body=self.scope)) is not None:
            whole = skip_identities(operand(node, 0))
            if {self._typing.dtype(whole), self._typing.dtype(value)} != {ir.DataType.BOOL}:
                break
            value = whole
        return value

    def _weighed(self, value: ir.Value) -> Selection | None:
        """Return the choice between two integers that is cast to a boolean, as tf2onnx has it."""
        cast = made_by(value, "Cast", body=self.scope)
        number = None if cast is None else skip_identities(operand(cast, 0))
        is_whole = number is not None and self._typing.dtype(number) in INTEGERS
        return find_selection(number, self.scope) if number is not None and is_whole else None

    def _truth(self, value: ir.Value, is_true: bool) -> ir.Value | bool | None:
        """Return whether an integer is not 0: a known one, or what a boolean was cast to."""
        number = only_number(value)
        if number is not None:
            return bool(number)
        cast = made_by(value, "Cast", body=self.scope)
        flag = None if cast is None else skip_identities(operand(cast, 0))
        if flag is None or self._typing.dtype(flag) != ir.DataType.BOOL:
            return None
        return self._read(flag, is_true)

    def _chosen(
        self,
        selection: Selection,
        is_true: bool,
        read: Callable[[ir.Value, bool], ir.Value | bool | None],
    ) -> ir.Value | bool | None:
        self.enter(selection)
        condition = self._read(selection.condition, is_true)
        if isinstance(condition, bool):
            return read(selection.chosen if condition else selection.other, is_true)
        sides = [read(v, is_true) for v in (selection.chosen, selection.other)]
        one, other = sides
        if condition is None or one is None or other is None:
            return None
        if selection.is_whole:
            condition, beside = flag_of(condition)
            self.nodes += beside
        if isinstance(one, bool) and isinstance(other, bool):
            if one == other:
                return one
            return condition if one else self._not(condition)
        either = (self._as_value(one), self._as_value(other))
        self.nodes += choice(condition, *either, ir.DataType.BOOL)
        return self.nodes[-1].outputs[0]

    def _not(self, value: ir.Value | bool) -> ir.Value | bool:
        return not value if isinstance(value, bool) else self.made("Not", value)

    def _joined(
        self, op_type: str, one: ir.Value | bool, other: ir.Value | bool
    ) -> ir.Value | bool:
        """Return what two booleans are together, where one may be known."""
        if isinstance(other, bool):
            one, other = other, one
        if not isinstance(one, bool):
            return self.made(op_type, one, self._as_value(other))
        if op_type == "Xor":
            return self._not(other) if one else other
        decides = one is (op_type == "Or")
        return one if decides else other

    def _as_value(self, value: ir.Value | bool) -> ir.Value:
        return self._constant(value) if isinstance(value, bool) else value

    def _constant(self, value: bool) -> ir.Value:
        self.nodes.append(added_constant(np.array(value)))
        return self.nodes[-1].outputs[0]
