"""Dimensions of what a recurrent cell reads, where no type tells them."""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.cell_values import Dim
from passes.graph.made import made_by, operands
from passes.reading.evaluate import Evaluator
from passes.reading.integers import Dim as IntegerDim
from passes.typing.value_types import Typing

__all__ = ["size_along"]


def size_along(value: ir.Value, axis: int, dim: Dim, evaluator: Evaluator, typing: Typing) -> Dim:
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
