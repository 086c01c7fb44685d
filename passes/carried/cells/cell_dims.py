"""Dimensions of what a recurrent cell reads and computes, where no type tells them, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.carried.cells.cell_sums import NotACellError
from passes.carried.cells.cell_values import Dim, Lead
from passes.carried.pattern import dependent_values
from passes.graph.made import made_by, operands
from passes.numbers.evaluate import Evaluator
from passes.numbers.integers import Dim as IntegerDim
from passes.reading.facts import Kind, LoopFacts
from passes.typing.value_types import Typing

__all__ = ["CellDims"]


class CellDims:
    """The dimensions of the values in the body of a Loop or Scan.

    A dimension is one number in all iterations: of a state that of its initial value, which holds
    if what is computed of it has the same dimensions again.

    Attributes:
        typing: The proven typing.
        varying: The values that differ from iteration to iteration.
        own: Those that are computed of the states.
    """

    def __init__(
        self,
        facts: LoopFacts,
        typing: Typing,
        states: Sequence[ir.Value],
        yielded: Callable[[ir.Value], tuple[Lead, int] | None],
    ) -> None:
        """Set up the reading.

        Args:
            facts: The Loop or Scan.
            typing: The proven typing.
            states: The states of the cell.
            yielded: Returns the dimensions of what another cell yields, the last one apart.
        """
        self.typing = typing
        body = facts.iteration.body
        given = [facts.iteration.number, *(inner for inner, _ in facts.iteration.scanned)]
        given += [s.carried.inner for s in facts.states if s.kind is not Kind.INVARIANT]
        self.varying = dependent_values(body, *(v for v in given if v is not None))
        self.own = dependent_values(body, *states)
        self._facts, self._yielded = facts, yielded

    def dims(self, value: ir.Value, *, least: int = 1) -> tuple[Lead, int]:
        """Return the dimensions of a value, the last one apart.

        Raises:
            NotACellError: They are not known.
        """
        evaluator = self._facts.evaluator
        dims = list(evaluator.dims(value) or ())
        for axis, dim in enumerate(dims):
            if not isinstance(dim, int):
                dims[axis] = _size_along(value, axis, dim, evaluator, self.typing)
        is_known = evaluator.dims(value) is not None and len(dims) >= least
        *lead, width = dims or (1,)
        if is_known and None not in lead and isinstance(width, int):
            return tuple(lead), width
        if value not in self.own and (found := self._yielded(value)) is not None:
            return found
        raise NotACellError


def _size_along(value: ir.Value, axis: int, dim: Dim, evaluator: Evaluator, typing: Typing) -> Dim:
    """Return a dimension that no type tells: its number, or a name that no other one has.

    Args:
        value: The tensor.
        axis: The axis.
        dim: What its type says.
        evaluator: Tells dimensions.
        typing: The proven typing.
    """
    size = evaluator.dimension(value, axis)
    if size is None and (row := made_by(value, "Gather")) is not None:
        tensor, place = operands(row)
        is_row = row.attributes.get_int("axis", 0) == 0 and typing.rank(place) == 0
        size = evaluator.dimension(tensor, axis + 1) if is_row else None
    if size is not None and size.number is not None:
        return size.number
    if typing.is_same_number(dim):
        return dim
    atoms = () if size is None or size.constant else size.terms
    for atom, count in atoms if len(atoms) == 1 else ():
        if isinstance(atom, IntegerDim) and count == 1:
            return atom.key if isinstance(atom.key, str) else f"{atom.tensor.name}.{atom.axis}"
    return None
