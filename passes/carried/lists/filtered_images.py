"""Lists that gain elements of any size: rows, and the sizes of what is kept.

Of the images ``[2, 3]``, ``[1, 4]`` and ``[2, 1]`` the first and the last are kept: their six and
two rows lie one behind the other, with the sizes ``[[2, 3], [2, 1]]``. What one iteration adds
lies side by side: an image ``[2, 3]`` and its transpose are 12 rows, with the sizes
``[[2, 3], [3, 2]]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.joined import Joined
from passes.carried.lists.filters import Filter
from passes.carried.lists.several_rows import SeveralRows, side_by_side
from passes.carried.pattern import Pattern, Term, added, added_integers
from passes.flat_views import FlatView, span_of, write_view
from passes.graph.made import made_by
from passes.typing.value_types import Typing, common_dims

__all__ = ["FilteredImages", "find_filtered_images", "find_several_images"]


@dataclasses.dataclass(frozen=True)
class FilteredImages(Pattern):
    """A carried sequence that gains elements of any size, in some iterations or in all.

    Attributes:
        terms: The rows that an iteration adds; the sizes of its elements; and whether it adds
            each, if not all do.
        dtype: The element type.
        lead: The known dimensions before the axes that may differ.
        rest: Those behind them.
        count: How many axes may differ.
    """

    dtype: ir.DataType
    lead: tuple[int, ...]
    rest: tuple[int, ...]
    count: int
    needs_sizes = False
    gives_flat = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        is_several = self.terms[1].kind == "concatenated"
        return "several elements of a list" if is_several else "elements under a condition"

    def write(self, joined: Joined) -> ir.Value:
        """Record the rows and sizes of the elements that are kept."""
        (rows, kept, *flags), builder = joined.values, joined.builder
        builder.opset = joined.opset
        if flags:
            kept = builder.op("Compress", [kept, *flags], {"axis": 0})
        else:  # what takes the place of the map's own result may not say how wide it is
            kept = builder.op("Reshape", [kept, builder.ints(-1, self.count)])
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
    if found is None or found.is_reversed or found.terms[0].kind != "stacked":
        return None
    row, *flags = (term.value for term in found.terms)
    several = SeveralRows(
        found.carried,
        (_given(row, found),),
        (row,),
        tuple(flags),
        found.is_sequence,
        found.nodes,
        found.speculated,
    )
    return find_several_images(several, typing)


def find_several_images(found: SeveralRows | None, typing: Typing) -> FilteredImages | None:
    """Return what an iteration adds as elements of any size, None if all have one size.

    Args:
        found: What an iteration adds to a list.
        typing: The proven typing.
    """
    if found is None or not found.is_sequence:
        return None
    known = [typing[value] for value in found.given]
    dtype = None if known[0].type is None else known[0].type.dtype
    dims = common_dims([one.dims for one in known])
    if dims is None or dtype is None or made_by(found.carried.initial, "SequenceEmpty") is None:
        return None
    span = span_of(dims)
    if span is None or all(dim is not None and typing.is_one_number(dim) for dim in dims):
        return None
    numbers = [
        [d for d in part if isinstance(d, int)] for part in (dims[: span[0]], dims[span[1] :])
    ]
    lead, rest = map(tuple, numbers)
    terms, nodes = _terms(found, rest, range(*span))
    made, count = (*found.nodes, *nodes), span[1] - span[0]
    how = (dtype, lead, rest, count)
    return FilteredImages(found.carried, terms, *how, nodes=made, speculated=found.speculated)


def _terms(
    found: SeveralRows, rest: Sequence[int], axes: range
) -> tuple[tuple[Term, ...], list[ir.Node]]:
    """Return the rows, sizes and flags of what an iteration adds, and what computes them."""
    flags = found.flags or [None] * len(found.values)
    rows = [_rows(value, flag, rest) for value, flag in zip(found.values, flags, strict=True)]
    sizes = [_sizes(value, axes) for value in found.values]
    nodes = [node for one in (*rows, *sizes) for node in one]
    row_values, size_values = ([one[-1].outputs[0] for one in part] for part in (rows, sizes))
    if len(found.values) == 1:
        (row,), (size,) = row_values, size_values
        own = [Term(flag) for flag in found.flags]
        return (Term(row, "concatenated"), Term(size, is_alike=True), *own), nodes
    joined = added("Concat", row_values, {"axis": 0})
    terms, nodes = [Term(joined.outputs[0], "concatenated")], [*nodes, joined]
    for values in (size_values, found.flags):
        if values:
            table, made = side_by_side(values)
            terms.append(Term(table, "concatenated", is_alike=True))
            nodes += made
    return tuple(terms), nodes


def _given(value: ir.Value, found: Filter) -> ir.Value:
    """Return the value of a branch that a value is a copy of; it, if it is none."""
    for copy, node in found.speculated:
        if value in copy.outputs:
            return node.outputs[copy.outputs.index(value)]
    return value


def _rows(element: ir.Value, flag: ir.Value | None, rest: Sequence[int]) -> list[ir.Node]:
    """Return nodes; the last one computes the rows of an element, and none without its flag."""
    target, none = added_integers(-1, *rest), added_integers(0)
    rows = added("Reshape", [element, target.outputs[0]])
    if flag is None:
        return [target, rows]
    shape = added("Shape", [rows.outputs[0]])
    count = added("Gather", [shape.outputs[0], none.outputs[0]], {"axis": 0})
    end = added("Where", [flag, count.outputs[0], none.outputs[0]])
    bounds = [node.outputs[0] for node in (none, end, none)]
    return [target, none, rows, shape, count, end, added("Slice", [rows.outputs[0], *bounds])]


def _sizes(element: ir.Value, axes: range) -> list[ir.Node]:
    """Return nodes; the last one computes the dimensions along some axes."""
    shape, wanted = added("Shape", [element]), added_integers(*axes)
    return [shape, wanted, added("Gather", [shape.outputs[0], wanted.outputs[0]], {"axis": 0})]
