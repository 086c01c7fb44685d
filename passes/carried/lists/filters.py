"""Rows that some iterations add to a tensor or a sequence, at its end or in front of it.

``if flag_i: acc = Concat(acc, r_i)`` keeps of the rows ``[r0, r1, r2]`` with the flags
``[1, 0, 1]`` the rows ``[r0, r2]``; where each comes in front, it is ``[r2, r0]``.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.joined import Joined, same_dims, unknown_rank
from passes.carried.lists.appends import (
    has_no_rows,
    like_initial,
)
from passes.carried.lists.joined_elements import first_elements
from passes.carried.pattern import Pattern
from passes.decisions import Code
from passes.graph.graphs import is_operator
from passes.loops.forms import SPLITTABLE
from passes.maps.tensor_source import reversed_along
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["Filter"]


@dataclasses.dataclass(frozen=True)
class Filter(Pattern):
    """A carried tensor or sequence that gains one row in some iterations.

    Attributes:
        terms: The row; and whether the iteration adds it, if not all do.
        axis: Of a tensor: along which axis.
        is_sequence: Whether it is a sequence.
        is_reversed: Whether a row comes in front of those that are there.
    """

    axis: int
    is_sequence: bool
    is_reversed: bool

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        kind = "rows in front" if self.is_reversed else "rows"
        return f"{kind} under a condition" if len(self.terms) > 1 else f"{kind} of a list"

    @property
    def needs_sizes(self) -> bool:  # type: ignore[override]
        """Whether rows are joined to others as they are; those of a list get their sizes."""
        return not self.is_sequence

    def write(self, joined: Joined) -> ir.Value:
        """Record the rows that are kept, joined to the initial ones."""
        builder, rows = joined.builder, joined.values[0]
        if len(self.terms) > 1:
            rows = builder.op("Compress", [rows, joined.values[1]], {"axis": self.axis})
        if self.is_reversed:
            rows = reversed_along(builder, rows, self.axis)
        if self.is_sequence:
            return self._split(joined, rows)
        initial, dims = self.carried.initial, joined.types[0].dims
        around, is_joined = joined.typing.dims(initial), self.terms[0].kind == "concatenated"
        if around is None or dims is None or len(around) != len(dims) + (not is_joined):
            raise unknown_rank(self.carried)
        axis = self.axis % len(around)
        own = [*dims[:axis], None, *dims[axis + is_joined :]]
        if not same_dims(joined.typing, initial, own, axis):
            rows = like_initial(builder, initial, rows, len(around), axis)
        if has_no_rows(initial, axis):
            return rows
        pair = [rows, initial] if self.is_reversed else [initial, rows]
        return builder.op("Concat", pair, {"axis": axis})

    def _split(self, joined: Joined, rows: ir.Value) -> ir.Value:
        known = joined.types[0].type
        if known is None or known.dtype not in SPLITTABLE:
            detail = f"the rows of '{self.carried.inner.name}' cannot be split"
            raise NotAMapError(Code.UNSPLITTABLE_TYPE, detail, self.carried.next.producer())
        rows = self._with_first_elements(joined, rows)
        return joined.builder.op("SplitToSequence", [rows], {"axis": 0, "keepdims": 0})

    def _with_first_elements(self, joined: Joined, rows: ir.Value) -> ir.Value:
        """Record the rows and the elements that the sequence starts with."""
        first = first_elements(self.carried.initial)
        if not first:
            return rows
        builder, dims = joined.builder, joined.types[0].dims
        own = None if dims is None else dims[self.terms[0].kind == "concatenated" :]
        is_checked = own is not None and self._must_be_alike(joined.typing, len(own))
        if own is None or not (is_checked or all(same_dims(joined.typing, v, own) for v in first)):
            detail = (
                f"the elements of '{self.carried.inner.name}' are not proven to have one shape"
            )
            raise NotAMapError(Code.UNKNOWN_SHAPE, detail, self.carried.next.producer())
        single = [builder.op("Unsqueeze", [v, builder.ints(0)]) for v in first]
        if not joined.runs and any(not isinstance(d, int) for d in own):
            rows = like_initial(builder, single[0], rows, len(own) + 1, 0)
        parts = [rows, *single] if self.is_reversed else [*single, rows]
        return builder.op("Concat", parts, {"axis": 0})

    def fails_where_unlike(self, typing: Typing, rank: int) -> bool:
        """Whether the model fails where rows differ: all are kept, and only stacked."""
        return len(self.terms) == 1 and self._must_be_alike(typing, rank)

    def _must_be_alike(self, typing: Typing, rank: int) -> bool:
        """Whether the model fails where elements, of some rank, differ: it only stacks them."""
        first, list_ = first_elements(self.carried.initial), self.carried.result
        if list_ is None or list_.is_graph_output() or not first:
            return False
        readers, maker = [use.node for use in list_.uses()], list_.producer()
        are_stacked = readers and all(
            is_operator(node, "ConcatFromSequence")
            and node.attributes.get_int("new_axis", 0)
            and maker is not None
            and node.graph is maker.graph
            for node in readers
        )
        return bool(are_stacked) and all(typing.rank(value) == rank for value in first)
