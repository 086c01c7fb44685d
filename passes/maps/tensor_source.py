"""A source of slices: a tensor that is cut along an axis, as SplitToSequence cuts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import repeated_number
from passes.maps.element_source import ElementSource, Read, typed
from passes.maps.slice_reads import (
    SlicesOfOne,
    checked_sizes,
    in_slices,
    prepare_slices,
    prepare_slices_of_one,
    sizes_by,
    starts_by,
)
from passes.typing import Typing, ValueType

__all__ = ["TensorSource", "reversed_along"]

_INT64 = ir.DataType.INT64


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
        """Record the number of slices.

        Args:
            builder: Writes the graph that holds the tensor.
            typing: The proven typing, if there is one.
            number: Records a number in the form that is wanted: a vector or a scalar.
            size_of: The operator that yields the length of a vector in that form.
        """
        if size_of == "Shape":
            dim = builder.dimension(self.tensor, self.axis)
        else:
            shape = builder.op("Shape", [self.tensor])
            dim = builder.op("Gather", [shape, number(self.axis)], {"axis": 0})
        if self.split is None:
            return dim
        if not self.split_is_scalar:
            return builder.op(size_of, [self.split])
        size = None if typing is None else self._even_size(typing)
        if size is not None:
            return builder.op("Div", [dim, number(size)])
        # Range refuses a size of 0, as the cut itself does.
        each = self._as_int64(builder, self.split)
        return builder.op(size_of, [starts_by(builder, self.tensor, self.axis, each)])

    def number(self, typing: Typing) -> int | None:
        """See `ElementSource.number`."""
        dim = self._dim(typing)
        if self.split is None:
            return dim if isinstance(dim, int) else None
        if typing.dims(self.tensor) is None:
            return None
        if not self.split_is_scalar:
            sizes = constant_value(self.split)
            return None if sizes is None else int(sizes.size)
        size = self._one_size()
        return -(-dim // size) if isinstance(dim, int) and size is not None else None

    def dimension(self, typing: Typing) -> int | str | None:
        """See `ElementSource.dimension`."""
        dim = None if self.split is not None else self._dim(typing)
        return dim if typing.is_one_number(dim) else None

    def length_key(self, typing: Typing) -> object:
        """See `ElementSource.length_key`."""
        dims, dim = typing.dims(self.tensor), self._dim(typing)
        if self.split is None:
            if dims is None:
                return self.tensor, self.axis
            return dim if typing.is_same_number(dim) else (self.tensor, self.axis % len(dims))
        if not self.split_is_scalar:
            sizes = constant_value(self.split)
            return self.split if sizes is None else sizes.size
        size = self._one_size()
        if size is not None and isinstance(dim, int):
            return -(-dim // size)
        return self.tensor, self.axis, self.split if size is None else size

    def element_type(self, typing: Typing) -> ValueType:
        """See `ElementSource.element_type`."""
        known = typing[self.tensor]
        if known.dims is None:
            return known
        dims = list(known.dims)
        axis = self.axis % len(dims)
        if self.split is not None:
            dims[axis] = self._even_size(typing)
        elif self.keepdims:
            dims[axis] = 1
        else:
            del dims[axis]
        return ValueType(known.type, tuple(dims))

    def has_one_shape(self, typing: Typing) -> bool:
        """See `ElementSource.has_one_shape`: of size 1, or of one constant size that fits."""
        return self.split is None or self._even_size(typing) is not None

    def differs(self, typing: Typing) -> bool:
        """See `ElementSource.differs`."""
        if self.split is not None and not self.split_is_scalar:
            sizes = constant_value(self.split)
            return sizes is not None and len({int(n) for n in sizes}) > 1
        dim, size = self._dim(typing), self._one_size()
        return isinstance(dim, int) and size is not None and dim > size and bool(dim % size)

    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """See `ElementSource.prepare`."""
        if self.split is None:
            cut = SlicesOfOne(self.tensor, self.axis, self.keepdims, self.is_reversed)
            return typed(prepare_slices_of_one(builder, cut, dtype), dtype)
        size = None if self.split_is_scalar else repeated_number(self.split)
        if self.axis == 0 and size is not None and size >= 0:
            rows = in_slices(builder, self.tensor, 0, builder.op("Shape", [self.split]), int(size))
            return TensorSource.of_stacked(rows).prepare(builder, dtype)
        ends, starts = self._bounds(builder, self.split)
        return typed(prepare_slices(self.tensor, self.axis, starts, ends), dtype)

    def _bounds(self, builder: Builder, split: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Record the rows behind the last one of each slice, and the first rows."""
        if not self.split_is_scalar:
            sizes = self.sizes(builder)
            ends = builder.op("CumSum", [sizes, builder.scalar(0)])
            return ends, builder.op("Sub", [ends, sizes])
        size = self._as_int64(builder, split)
        starts = starts_by(builder, self.tensor, self.axis, size)
        return builder.op("Add", [starts, size]), starts

    def _as_int64(self, builder: Builder, split: ir.Value) -> ir.Value:
        """Record the sizes, or the one size, as int64."""
        return builder.op("Cast", [split], {"to": int(_INT64)})

    def stack(self, builder: Builder, rank: int | None, typing: Typing) -> ir.Value | None:
        """See `ElementSource.stack`."""
        if self.split is not None:
            return self._stack_slices(builder, typing)
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
        assert self.split is not None
        sizes = self._as_int64(builder, self.split)
        if self.split_is_scalar:
            return sizes_by(builder, self.tensor, self.axis, sizes)
        if self.is_whole or self._fits(typing):
            return sizes
        return checked_sizes(builder, self.tensor, self.axis, sizes)

    def _fits(self, typing: Typing | None) -> bool:
        """Whether constant sizes are proven to add up to the axis."""
        sizes = constant_value(self.split)
        dims = None if typing is None else typing.dims(self.tensor)
        if sizes is None or dims is None:
            return False
        return bool((sizes >= 0).all() and sizes.sum() == dims[self.axis])

    def _dim(self, typing: Typing) -> int | str | None:
        """Return the dimension that is cut."""
        dims = typing.dims(self.tensor)
        return dims[self.axis % len(dims)] if dims else None

    def _even_size(self, typing: Typing) -> int | None:
        """Return the size of the slices if it is one constant number."""
        if typing.dims(self.tensor) is None:
            return None
        if self.split_is_scalar:
            size, dim = self._one_size(), self._dim(typing)
            return size if size is not None and isinstance(dim, int) and dim % size == 0 else None
        of_all = repeated_number(self.split)
        return None if of_all is None else int(of_all)

    def _one_size(self) -> int | None:
        """Return the size of all slices but the last, if it is a constant.

        Raises:
            RewriteError: It is not positive, which is an error of ONNX.
        """
        size = constant_value(self.split) if self.split_is_scalar else None
        if size is None:
            return None
        if size <= 0:
            raise RewriteError(
                f"'{self.tensor.name}' is cut into slices of {int(size.item())} rows, which ONNX"
                " does not allow; mend the model where it is made"
            )
        return int(size.item())

    def _stack_slices(self, builder: Builder, typing: Typing) -> ir.Value | None:
        """Cut axis ``a`` of size ``B * c`` into ``[B, c]`` and bring ``B`` to the front."""
        dims, size = typing.dims(self.tensor), self._even_size(typing)
        if dims is None or size is None:
            return None
        axis = self.axis % len(dims)
        cut = in_slices(builder, self.tensor, axis, self.count(builder, typing), size, len(dims))
        if axis == 0:
            return cut
        order = [axis, *(i for i in range(len(dims) + 1) if i != axis)]
        return builder.op("Transpose", [cut], {"perm": order})


def reversed_along(builder: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Record a tensor with the order along one axis turned round."""
    start, end = builder.ints(-1), builder.ints(int(np.iinfo(np.int64).min))
    return builder.op("Slice", [value, start, end, builder.ints(axis), builder.ints(-1)])
