"""Tensors written at an index of the iteration: ScatterND and ScatterElements."""

from __future__ import annotations

import dataclasses
from typing import Any

import onnx_ir as ir

from passes.carried.common.row_shapes import as_rows_of
from passes.carried.joined import Joined
from passes.carried.pattern import FLOATS, Pattern
from passes.carried.places.joined_places import Places
from passes.decisions import Code
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried
from passes.typing.value_types import are_numbers

__all__ = ["Write", "is_distinct"]

_Dims = tuple[int | str | None, ...]


@dataclasses.dataclass(frozen=True)
class Write(Pattern):
    """A carried tensor that each iteration writes to.

    Attributes:
        terms: The indices and the updates.
        node: The node that writes.
        index: The number at which an iteration writes; None where any order is right.
        reduction: How it is joined to what is there.
        rounds: Whether the order of the writes changes the result.
        width: How many positions from that number on one iteration may write to.
        along: The axis of these positions, None where that is not told.
        named: Along how many axes places are named, if they are a list of places.
    """

    node: ir.Node
    index: Linear | None
    reduction: str = "none"
    rounds: bool = False
    width: int = 1
    along: int | None = None
    named: int | None = None
    name = "carried write by index"
    keeps_shape = "as it is made"
    needs_sizes = False

    def write(self, joined: Joined) -> ir.Value:
        """Record one scatter of all updates onto the initial tensor."""
        if self.index is not None and not self._is_distinct(joined):
            detail = f"two iterations may write to one place of '{name_of_carried(self.carried)}'"
            raise NotAMapError(Code.RECURRENCE, detail, self.node)
        tensor, indices, updates = self.carried.initial, joined.values[0], self._updates(joined)
        if self.reduction == "none":
            attributes: dict[str, Any] = dict(self.node.attributes)
            return joined.builder.op(self.node.op_type, [tensor, indices, updates], attributes)
        dtype = joined.typing.dtype(tensor)
        if dtype != ir.DataType.FLOAT16:
            return self._joined(joined, tensor, indices, updates, dtype)
        # onnxruntime has no scatter that joins halves
        wide = [
            joined.builder.op("Cast", [value], {"to": int(ir.DataType.FLOAT)})
            for value in (tensor, updates)
        ]
        made = self._joined(joined, wide[0], indices, wide[1], ir.DataType.FLOAT)
        return joined.builder.op("Cast", [made], {"to": int(ir.DataType.FLOAT16)})

    def _updates(self, joined: Joined) -> ir.Value:
        """Return the updates of all iterations; those of none have the dimensions of the tensor.

        Where samples differ in shape, a map without samples yields 0 for each dimension.
        """
        updates, dims = joined.values[1], joined.types[1].dims
        rank = joined.typing.rank(self.carried.initial)
        if joined.runs or dims is None or are_numbers(dims) or rank is None:
            return updates
        is_listed = len(dims) + (self.terms[1].kind == "stacked") == rank
        if self.node.op_type != "ScatterND" or not is_listed:
            return updates
        return as_rows_of(joined.builder, self.carried.initial, updates, 1)

    def _joined(
        self,
        joined: Joined,
        tensor: ir.Value,
        indices: ir.Value,
        updates: ir.Value,
        dtype: ir.DataType | None,
    ) -> ir.Value:
        """Record how the updates of all iterations are joined, some perhaps to one place."""
        builder = joined.builder
        if self.node.op_type == "ScatterND":
            places = self._places(joined, tensor, indices)
            if self._is_of_node:
                return places.scatter(tensor, updates, self.reduction)
            return places.join(tensor, updates, self.reduction, dtype)
        is_extreme = self.reduction in ("max", "min") and dtype in FLOATS
        if is_extreme and not self._is_of_node:  # elements of a vector
            listed = builder.op("Unsqueeze", [indices, builder.ints(-1)])
            places = Places.of(builder, tensor, 1, listed, 1, is_list=True)
            return places.join(tensor, updates, self.reduction, dtype)
        attributes: dict[str, Any] = dict(self.node.attributes) | {"reduction": self.reduction}
        return builder.op("ScatterElements", [tensor, indices, updates], attributes)

    def _places(self, joined: Joined, tensor: ir.Value, indices: ir.Value) -> Places:
        """Record the numbers of the places at which rows are joined.

        Raises:
            NotAMapError: It is not known along which axes they are named.
        """
        typing, initial, dims = joined.typing, self.carried.initial, joined.types[0].dims
        rank = typing.rank(initial)
        named = _named_axes(rank, dims, joined.types[1].dims if self._is_of_node else None)
        if named is None or rank is None or not 1 <= named <= rank:
            detail = f"'{name_of_carried(self.carried)}' is joined to at places of several axes"
            raise NotAMapError(Code.RECURRENCE, detail, self.node)
        is_list = len(dims or ()) + (self.terms[0].kind == "stacked") == 2
        return Places.of(joined.builder, tensor, rank, indices, named, is_list=is_list)

    @property
    def _is_of_node(self) -> bool:
        """Whether the node that writes joins the updates itself."""
        return self.node.attributes.get_string("reduction", "none") == self.reduction

    def _is_distinct(self, joined: Joined) -> bool:
        """Whether no two iterations have one index; a negative one counts from the end."""
        assert self.index is not None
        return is_distinct(self.index, self.width, joined.trips.bound)


def _named_axes(rank: int | None, indices: _Dims | None, updates: _Dims | None) -> int | None:
    """Return along how many axes the indices of a ScatterND name places.

    Where their last dimension is no number, the ranks tell: an update has the axes of the indices
    but the last, then those of the tensor that are not named.
    """
    if not indices:
        return None
    if isinstance(indices[-1], int):
        return indices[-1]
    if rank is None or updates is None:
        return None
    return len(indices) - 1 + rank - len(updates)


def is_distinct(index: Linear, width: int, bound: Linear) -> bool:
    """Whether numbers from an index on, so many of them, are others in each iteration.

    Args:
        index: The first of them.
        width: How many there are.
        bound: How many iterations there are.
    """
    step = index.step
    if abs(step) < width:
        return False
    lowest = Linear(0) if step > 0 else bound - 1
    return is_nonnegative(index.replace({ITERATION: lowest}))
