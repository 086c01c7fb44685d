"""Finds the carried values that are the states of a recurrent cell."""

from __future__ import annotations

import contextlib
import dataclasses

import onnx_ir as ir

from passes.carried.cells.cell import Cell
from passes.carried.cells.cell_choices import find_choices
from passes.carried.cells.cell_kinds import CellKind, kind_of_one, kind_of_two
from passes.carried.cells.cell_masks import find_kept, find_mask, is_same_mask
from passes.carried.cells.cell_operators import find_operator, without_first_axes
from passes.carried.cells.cell_reading import CellReader
from passes.carried.cells.cell_sums import NotACellError
from passes.carried.cells.cell_values import Lead
from passes.carried.cells.cells import CellState
from passes.carried.common.selections import Selection
from passes.carried.pattern import dependent_values
from passes.graph.made import made_by, operand, repeated_number
from passes.reading.facts import Kind, LoopFacts, State
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_cell"]

_MOST = 8
"""Of more carried values no pairs are looked for."""


def find_cell(state: State, facts: LoopFacts, typing: Typing) -> CellState | None:
    """Return what a carried value is to a recurrent cell, None where it is none.

    Args:
        state: The carried value.
        facts: The Loop or Scan.
        typing: The proven typing.
    """
    found = _CellFinder(facts, typing).find(state)
    if found is None or found.cell.mask is None or found.at:
        return found
    instead = find_choices(found.carried, found.cell, facts, typing)
    return dataclasses.replace(found, instead=instead)


class _CellFinder:
    """Finds the cells of a Loop or Scan, each once: one may read what another one yields."""

    def __init__(self, facts: LoopFacts, typing: Typing) -> None:
        self._facts, self._typing = facts, typing
        self._found: dict[ir.Value, CellState | None] = {}

    def find(self, state: State) -> CellState | None:
        """Return what a carried value is to a recurrent cell."""
        key = state.carried.inner
        if key not in self._found:
            self._found[key] = None  # for what asks while it is looked for
            self._found[key] = self._find(state)
        return self._found[key]

    def _find(self, state: State) -> CellState | None:
        own = dependent_values(self._facts.iteration.body, state.carried.inner)
        if not self._is_float(state) or state.carried.next not in own:
            return None
        with contextlib.suppress(NotACellError):
            cell = self._cell([state])
            return CellState(state.carried, cell.terms, cell)
        others = [o for o in self._facts.states if o is not state and self._is_float(o)]
        for other in others if len(others) < _MOST else ():
            for at, pair in enumerate(([state, other], [other, state])):
                with contextlib.suppress(NotACellError):
                    cell = self._cell(pair)
                    return CellState(state.carried, cell.terms, cell, at)
        return self._shown(state)

    def _shown(self, state: State) -> CellState | None:
        """Return what keeps the last state that a masked cell shows, as Keras writes it."""
        kept = find_kept(state.carried, self._facts, self._typing)
        for other in self._facts.states if kept is not None else ():
            found = self.find(other) if other is not state and self._is_float(other) else None
            if found is None or found.at or found.carried is not other.carried:
                continue
            mask = find_kept(other.carried, self._facts, self._typing)
            if kept is None or mask is None or not is_same_mask(kept, mask):
                continue
            if kept.chosen is mask.chosen and self._is_like(state, other):
                return dataclasses.replace(found, carried=state.carried)
        return None

    def _is_like(self, one: State, other: State) -> bool:
        """Whether two states begin with the same dimensions."""
        evaluator = self._facts.evaluator
        values = [one.carried.initial, other.carried.initial]
        ranks = {evaluator.rank(value) for value in values}
        if len(ranks) != 1 or None in ranks:
            return False
        rank = ranks.pop() or 0
        sizes = ([evaluator.dimension(v, axis) for v in values] for axis in range(rank))
        return all(mine is not None and mine == theirs for mine, theirs in sizes)

    def _is_float(self, state: State) -> bool:
        """Whether a carried value is one that onnxruntime's recurrent operators compute."""
        is_float = self._typing.dtype(state.carried.initial) == ir.DataType.FLOAT
        return state.kind is Kind.OTHER and is_float

    def _cell(self, states: list[State]) -> Cell:
        """Return the recurrent operator that has some states.

        Raises:
            NotACellError: There is none, it reads nothing in an iteration, or has more than one
                axis for the batch.
        """
        facts, carried = self._facts, [one.carried for one in states]
        mask = None
        if (kept := find_mask(carried, facts, self._typing)) is not None:
            mask, carried = kept
            # Of a NaN in a first state that is kept one element alone is NaN, until it is read.
            if mask.weighs and any(repeated_number(one.initial) is None for one in carried[1:]):
                raise NotACellError
        given = [(one.inner, one.initial) for one in carried]
        reader = CellReader(facts, self._typing, given, self._yielded)
        try:
            kind, *read = find_operator(carried, facts, reader)
        except NotACellError:
            kind = _kind(carried, reader)
            read = list(dict.fromkeys(row for gate in kind.gates for row, _, _ in gate.rows))
            # A matrix of zeros would make NaN of what is infinite.
            of_gates = [{row for row, _, _ in gate.rows} for gate in kind.gates if gate.hidden]
            if of_gates != [set(read)] * len(kind.gates):
                raise NotACellError from None
        rows = [(row, *reader.dims(row)) for row in read]
        own = [(one, reader.dims(one.initial)[0]) for one in carried]
        leads = [*(lead for _, lead in own), *(lead for _, lead, _ in rows)]
        if not rows or any(sum(dim != 1 for dim in lead) > 1 for lead in leads):
            raise NotACellError
        width = reader.form(carried[0].inner).width
        assert width is not None
        if mask is None:
            return Cell(kind, facts, own, rows, width)
        # onnxruntime makes a number of NaN in the author's operator, which 0 weighs then.
        if mask.weighs and kind.node is not None:
            raise NotACellError
        return Cell(kind, facts, own, rows, width, *_narrow(mask, own[0][1], reader))

    def _yielded(self, value: ir.Value) -> tuple[Lead, int] | None:
        """Return the dimensions of what a cell yields in an iteration, None for another value."""
        made, more = without_first_axes(value)
        for state in self._facts.states:
            own, less = without_first_axes(state.carried.next)
            if own is not made or own is state.carried.inner or more < less:
                continue
            found = self.find(state)
            if found is None:
                return None
            lead = found.cell.states[found.at][1]
            if found.cell.is_open:  # The rows decide the batch, too.
                lead = tuple(dim if dim == 1 else f"batch of {own.name}" for dim in lead)
            return (1,) * (more - less) + lead, found.cell.width
        return None


def _narrow(mask: Selection, lead: Lead, reader: CellReader) -> tuple[Selection, Lead, bool]:
    """Return a mask with a flag for each row, and what a `Cell` says of its dimensions.

    Raises:
        NotACellError: It differs within a row, or from what the state computes.
    """
    if mask.condition not in reader.varying or mask.condition in reader.own:
        raise NotACellError
    flag = mask.condition
    own, width = reader.dims(flag, least=0)
    node = made_by(flag, "Expand")
    if width != 1 and node is not None and own == lead:
        flag = operand(node, 0)
        own, width = reader.dims(flag, least=0)
    spread = (1,) * (len(lead) - len(own)) + own
    if width != 1 or len(own) > len(lead):
        raise NotACellError
    if any(one != 1 and other == 1 for one, other in zip(spread, lead, strict=True)):
        raise NotACellError
    return dataclasses.replace(mask, condition=flag), own, reader.typing.rank(flag) == 0


def _kind(states: list[Carried], reader: CellReader) -> CellKind:
    """Return the operator that computes what the nodes of an iteration do.

    Raises:
        NotACellError: There is none.
    """
    before = [reader.form(one.inner) for one in states]
    after = [reader.form(one.next) for one in states]
    if len({(form.lead, form.width) for form in (*before, *after)}) != 1:
        raise NotACellError
    h, *kept = (one.inner for one in states)
    total, *others = (form.total for form in after)
    return kind_of_two(h, kept[0], total, others[0]) if kept else kind_of_one(h, total)
