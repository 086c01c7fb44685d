"""A source of slices: a tensor that is cut along an axis, as SplitToSequence cuts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.maps.element_source import ElementSource, Read, typed
from passes.maps.slice_reads import SlicesOfOne, prepare_slices_of_one
from passes.maps.split_sizes import SplitSizes
from passes.typing import Typing, ValueType

__all__ = ["TensorSource", "reversed_along"]


@dataclasses.dataclass(frozen=True)
class TensorSource(ElementSource):
    """Sample ``k`` reads a slice of a tensor along an axis.

    Attributes:
        tensor: The tensor that is cut.
        axis: Where it is cut; negative counts from the back.
        keepdims: Without ``split``: whether the axis stays, with size 1.
        split: None for slices of size 1; a scalar for the size of each slice (the last may be
            smaller); a 1-D value for the sizes one by one.
        split_is_scalar: Which of the two ``split`` is.
        is_reversed: Without ``split``: whether sample 0 reads the last slice.
        is_whole: With ``split``: whether the sizes are made to add up to the axis.
    """

    kind: ClassVar[str] = "slice"
    sequence = None
    given_count = None

    tensor: ir.Value
    axis: int
    keepdims: bool = True
    split: ir.Value | None = None
    split_is_scalar: bool = False
    is_reversed: bool = False
    is_whole: bool = False

    @classmethod
    def of_stacked(cls, tensor: ir.Value) -> TensorSource:
        """Return the rows of a stacked tensor."""
        return cls(tensor, 0, keepdims=False)

    @property
    def as_slices(self) -> TensorSource:
        """See `ElementSource.as_slices`."""
        return self

    @property
    def read_kind(self) -> str:
        """See `ElementSource.read_kind`."""
        return "row" if self.split is None else "slice"

    @property
    def values(self) -> tuple[ir.Value, ...]:
        """See `ElementSource.values`."""
        return (self.tensor,) if self.split is None else (self.tensor, self.split)

    def moved(self, now: Mapping[ir.Value, ir.Value]) -> TensorSource:
        """See `ElementSource.moved`."""
        split = None if self.split is None else now.get(self.split, self.split)
        return dataclasses.replace(self, tensor=now.get(self.tensor, self.tensor), split=split)

    def count(self, builder: Builder, typing: Typing | None) -> ir.Value:
        """See `ElementSource.count`."""
        return self._write_count(builder, typing, builder.ints, "Shape")

    def scalar_count(self, builder: Builder, typing: Typing) -> ir.Value:
        """See `ElementSource.scalar_count`."""
        return self._write_count(builder, typing, builder.scalar, "Size")

    def _write_count(
        self,
        builder: Builder,
        typing: Typing | None,
        number: Callable[[int], ir.Value],
        size_of: str,
    ) -> ir.Value:
        """Record the number of slices; see `SplitSizes.count` for the arguments."""
        if size_of == "Shape":
            dim = builder.dimension(self.tensor, self.axis)
        else:
            shape = builder.op("Shape", [self.tensor])
            dim = builder.op("Gather", [shape, number(self.axis)], {"axis": 0})
        sizes = self._sizes
        return dim if sizes is None else sizes.count(builder, dim, typing, number, size_of)

    @property
    def _sizes(self) -> SplitSizes | None:
        """The sizes of the slices; None for slices of size 1."""
        if self.split is None:
            return None
        scalar, whole = self.split_is_scalar, self.is_whole
        return SplitSizes(self.tensor, self.axis, self.split, scalar, whole)

    def number(self, typing: Typing) -> int | None:
        """See `ElementSource.number`."""
        if (sizes := self._sizes) is not None:
            return sizes.number(typing)
        dim = typing.dim(self.tensor, self.axis)
        return dim if isinstance(dim, int) else None

    def dimension(self, typing: Typing) -> int | str | None:
        """See `ElementSource.dimension`."""
        dim = None if self.split is not None else typing.dim(self.tensor, self.axis)
        return dim if typing.is_one_number(dim) else None

    def length_key(self, typing: Typing) -> object:
        """See `ElementSource.length_key`."""
        if (sizes := self._sizes) is not None:
            return sizes.length_key(typing)
        dims, dim = typing.dims(self.tensor), typing.dim(self.tensor, self.axis)
        if dims is None:
            return self.tensor, self.axis
        return dim if typing.is_same_number(dim) else (self.tensor, self.axis % len(dims))

    def element_type(self, typing: Typing) -> ValueType:
        """See `ElementSource.element_type`."""
        known = typing[self.tensor]
        if known.dims is None:
            return known
        dims = list(known.dims)
        axis = self.axis % len(dims)
        if (sizes := self._sizes) is not None:
            dims[axis] = sizes.even_size(typing)
        elif self.keepdims:
            dims[axis] = 1
        else:
            del dims[axis]
        return ValueType(known.type, tuple(dims))

    def has_one_shape(self, typing: Typing) -> bool:
        """See `ElementSource.has_one_shape`: of size 1, or of one constant size that fits."""
        sizes = self._sizes
        return sizes is None or sizes.even_size(typing) is not None

    def differs(self, typing: Typing) -> bool:
        """See `ElementSource.differs`."""
        sizes = self._sizes
        return sizes is not None and sizes.differ(typing)

    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """See `ElementSource.prepare`."""
        if (sizes := self._sizes) is not None:
            return sizes.prepare(builder, dtype)
        cut = SlicesOfOne(self.tensor, self.axis, self.keepdims, self.is_reversed)
        return typed(prepare_slices_of_one(builder, cut, dtype), dtype)

    def stack(self, builder: Builder, rank: int | None, typing: Typing) -> ir.Value | None:
        """See `ElementSource.stack`."""
        if (sizes := self._sizes) is not None:
            return sizes.stack(builder, typing, lambda: self.count(builder, typing))
        value = self.tensor
        value = reversed_along(builder, value, self.axis) if self.is_reversed else value
        if self.axis == 0 and not self.keepdims:
            return value
        if rank is None:
            return None
        tensor_rank = rank if self.keepdims else rank + 1
        axis = self.axis % tensor_rank
        if axis:
            order = [axis, *(i for i in range(tensor_rank) if i != axis)]
            value = builder.op("Transpose", [value], {"perm": order})
        if self.keepdims:
            value = builder.op("Unsqueeze", [value, builder.ints(axis + 1)])
        return value

    def sizes(self, builder: Builder, typing: Typing | None = None) -> ir.Value:
        """Record the sizes of slices that are cut by sizes, int64 ``[B]``.

        It is an error at run time if one of a vector is negative, or if they do not add up to the
        axis: slices would hold rows of others.

        Args:
            builder: Writes the graph that holds the tensor.
            typing: The proven typing, if there is one.
        """
        sizes = self._sizes
        assert sizes is not None
        return sizes.write(builder, typing)


def reversed_along(builder: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Record a tensor with the order along one axis turned round."""
    start, end = builder.ints(-1), builder.ints(int(np.iinfo(np.int64).min))
    return builder.op("Slice", [value, start, end, builder.ints(axis), builder.ints(-1)])
