"""The elements of a list to which each iteration appends one, joined to a tensor.

Those that the list begins with stand in front of them.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined, same_dims, unproven_shape
from passes.carried.lists.appends import fitting_rows
from passes.carried.pattern import Pattern
from passes.graph.made import made_by, operands

__all__ = ["JoinedElements", "first_elements"]


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


@dataclasses.dataclass(frozen=True)
class JoinedElements(Pattern):
    """The elements of a list that gains one in each iteration, joined.

    Attributes:
        carried: What joins those that are there in front of the append, and behind it.
        terms: The element.
        axis: Along which axis they are joined.
        is_new_axis: Whether that is an axis of its own.
        first: The elements that the list begins with.
        is_checked: Whether the Loop fails where elements do not fit together.
    """

    axis: int
    is_new_axis: bool
    first: tuple[ir.Value, ...]
    is_checked: bool
    name = "list that is joined"
    grows = True
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record the first elements and those of all iterations, joined.

        Raises:
            NotAMapError: The last element might not fit to the others, which no iteration asks.
        """
        builder, (rows,), (known,) = joined.builder, joined.values, joined.types
        dims = known.dims
        if not self.is_checked and not self._fits(joined):
            raise unproven_shape(self.carried)
        if not self.first or dims is None:
            return rows
        first = list(self.first)
        if self.is_new_axis:
            first = [builder.op("Unsqueeze", [v, builder.ints(self.axis)]) for v in first]
            dims = (*dims[: self.axis], 1, *dims[self.axis :])
        whole = first[0] if len(first) == 1 else builder.op("Concat", first, {"axis": self.axis})
        rows = fitting_rows(joined, whole, rows, dims, self.axis)
        return builder.op("Concat", [whole, rows], {"axis": self.axis})

    def _fits(self, joined: Joined) -> bool:
        """Whether all elements have one shape by proof."""
        dims, typing = joined.types[0].dims, joined.typing
        if dims is None or not all(map(typing.is_same_number, dims)):
            return False
        return all(same_dims(typing, value, dims) for value in self.first)
