"""The elements that a carried list begins with, however the list was written."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.made import made_by, operands

__all__ = ["first_elements"]


def first_elements(sequence: ir.Value) -> list[ir.Value] | None:
    """Return the elements of a list in their order, None if they are not known one by one.

    ``SequenceInsert`` without a position adds one at the end. A list that the graph is given, or
    that another operator makes, has elements that nothing tells.
    """
    behind: list[ir.Value] = []
    while (insert := made_by(sequence, "SequenceInsert")) is not None:
        sequence, *elements = operands(insert)
        if len(elements) != 1:
            return None
        behind = [*elements, *behind]
    start = made_by(sequence, "SequenceEmpty", "SequenceConstruct")
    return None if start is None else [*operands(start), *behind]
