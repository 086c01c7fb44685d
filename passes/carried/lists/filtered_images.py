"""Lists that gain elements of any size in some iterations: rows, and the sizes of what is kept.

Of the images ``[2, 3]``, ``[1, 4]`` and ``[2, 1]`` the first and the last are kept: their six and
two rows lie one behind the other, with the sizes ``[[2, 3], [2, 1]]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.lists.filters import Filter
from passes.carried.pattern import Pattern, Term, added, added_integers
from passes.flat_views import FlatView, span_of, write_view
from passes.graph.made import made_by
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["FilteredImages", "find_filtered_images"]


@dataclasses.dataclass(frozen=True)
class FilteredImages(Pattern):
    """A carried sequence that gains an element of any size in some iterations.

    Attributes:
        carried: Where it stands.
        terms: The rows that an iteration adds; the sizes of its element; and whether it adds it,
            if not all do.
        dtype: The element type.
        lead: The known dimensions before the axes that may differ.
        rest: Those behind them.
        count: How many axes may differ.
        nodes: What computes the terms beside the body.
        speculated: The nodes of branches that the map runs in all iterations.
    """

    carried: Carried
    terms: tuple[Term, ...]
    dtype: ir.DataType
    lead: tuple[int, ...]
    rest: tuple[int, ...]
    count: int
    nodes: tuple[ir.Node, ...]
    speculated: tuple[tuple[ir.Node, ir.Node], ...]
    name = "elements under a condition"
    needs_sizes = False
    gives_flat = True

    def write(self, joined: Joined) -> ir.Value:
        """Record the rows and sizes of the elements that are kept."""
        (rows, kept, *flags), builder = joined.values, joined.builder
        builder.opset = joined.opset
        if flags:
            kept = builder.op("Compress", [kept, *flags], {"axis": 0})
        if self.count == 1 and not self.lead:
            lengths = builder.op("Squeeze", [kept, builder.ints(1)])
            return builder.op("SplitToSequence", [rows, lengths], {"axis": 0})
        kept.type, kept.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([None, self.count])
        return write_view(
            builder, FlatView(rows, kept, self.lead, self.rest, self.count), self.dtype
        )


def find_filtered_images(found: Filter | None, typing: Typing) -> FilteredImages | None:
    """Return rows under a condition as elements of any size, None if they have one size.

    Args:
        found: What some iterations add.
        typing: The proven typing.
    """
    if found is None or found.is_reversed or not found.is_sequence:
        return None
    row, *flags = found.terms
    known = typing[_given(row.value, found)]
    dims, dtype = known.dims, None if known.type is None else known.type.dtype
    if dims is None or dtype is None or made_by(found.carried.initial, "SequenceEmpty") is None:
        return None
    span = span_of(dims)
    if span is None or row.kind != "stacked" or all(map(typing.is_one_number, dims)):
        return None
    numbers = [
        [d for d in part if isinstance(d, int)] for part in (dims[: span[0]], dims[span[1] :])
    ]
    lead, rest = map(tuple, numbers)
    rows = _rows(row.value, flags, rest)
    sizes = _sizes(row.value, range(*span))
    terms = (
        Term(rows[-1].outputs[0], "concatenated"),
        Term(sizes[-1].outputs[0], is_alike=True),
        *flags,
    )
    nodes = (*found.nodes, *rows, *sizes)
    count = span[1] - span[0]
    return FilteredImages(found.carried, terms, dtype, lead, rest, count, nodes, found.speculated)


def _given(value: ir.Value, found: Filter) -> ir.Value:
    """Return the value of a branch that a value is a copy of; it, if it is none."""
    for copy, node in found.speculated:
        if value in copy.outputs:
            return node.outputs[copy.outputs.index(value)]
    return value


def _rows(element: ir.Value, flags: Sequence[Term], rest: tuple[int, ...]) -> list[ir.Node]:
    """Return nodes; the last one computes the rows of an element, and none without its flag."""
    target, none = added_integers(-1, *rest), added_integers(0)
    rows = added("Reshape", [element, target.outputs[0]])
    if not flags:
        return [target, rows]
    shape = added("Shape", [rows.outputs[0]])
    count = added("Gather", [shape.outputs[0], none.outputs[0]], {"axis": 0})
    end = added("Where", [flags[0].value, count.outputs[0], none.outputs[0]])
    bounds = [node.outputs[0] for node in (none, end, none)]
    return [target, none, rows, shape, count, end, added("Slice", [rows.outputs[0], *bounds])]


def _sizes(element: ir.Value, axes: range) -> list[ir.Node]:
    """Return nodes; the last one computes the dimensions along some axes."""
    shape, wanted = added("Shape", [element]), added_integers(*axes)
    return [shape, wanted, added("Gather", [shape.outputs[0], wanted.outputs[0]], {"axis": 0})]
