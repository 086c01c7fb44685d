"""What an iteration reads of a masked cell's new state only where the mask takes it.

``y = Where(m, new, 0)`` beside ``h = Where(m, new, h)`` is ``Where(m, h, 0)`` of the state at the
end of the iteration, which the operator gives for all iterations. Keras writes it so.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.carried.cells.cell import Cell
from passes.carried.cells.cell_masks import find_kept, is_true_where
from passes.graph.graphs import is_operator
from passes.graph.made import either_order, operands, repeated_number, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_choices"]

_BOUNDED = frozenset({"HardSigmoid", "Sigmoid", "Softsign", "Tanh"})
"""Activations that make no infinity."""


def find_choices(
    carried: Carried, cell: Cell, facts: LoopFacts, typing: Typing
) -> dict[ir.Node, tuple[ir.Value, ir.Value]]:
    """Return nodes that may read a state in the place of its new value: what they read, and that.

    Args:
        carried: The first state of a masked cell.
        cell: The cell.
        facts: The Loop or Scan.
        typing: The proven typing.
    """
    mask = find_kept(carried, facts, typing)
    if mask is None or (mask.weighs and not _is_finite(carried, cell)):
        return {}
    found = {}
    for node in facts.iteration.body:
        for value, flag, is_turned in _taken(node, weighs=mask.weighs):
            is_new = skip_identities(value) is mask.chosen
            if is_new and is_true_where(flag, mask, typing, is_turned=is_turned):
                found[node] = (value, carried.next)
    return found


def _taken(node: ir.Node, *, weighs: bool) -> Iterator[tuple[ir.Value, ir.Value, bool]]:
    """Yield what a node takes by a flag, the flag, and whether it takes it where that is false."""
    if is_operator(node, "Where"):
        flag, chosen, other = operands(node)
        yield chosen, flag, False
        yield other, flag, True
    elif weighs and is_operator(node, "Mul"):
        yield from ((value, flag, False) for value, flag in either_order(node))


def _is_finite(carried: Carried, cell: Cell) -> bool:
    """Whether a state is finite or NaN in all elements: of an infinite one 0 makes a NaN."""
    activations = cell.kind.attributes.get("activations", ())
    is_number = repeated_number(carried.initial) is not None
    return is_number and _BOUNDED.issuperset(activations)
