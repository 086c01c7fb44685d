"""The sizes of the slices that a tensor is cut into: one for all but the last, or one for each.

Of a tensor of 5 rows the size 2 makes slices of ``[2, 2, 1]`` rows, and ``[2, 3]`` makes two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import repeated_number
from passes.maps.element_source import Read, typed
from passes.maps.slice_reads import (
    SlicesOfOne,
    checked_sizes,
    in_slices,
    prepare_slices,
    prepare_slices_of_one,
    sizes_by,
    starts_by,
)
from passes.typing import Typing

__all__ = ["SplitSizes"]


@dataclasses.dataclass(frozen=True)
class SplitSizes:
    """The sizes that a tensor is cut by.

    Attributes:
        tensor: The tensor that is cut.
        axis: Where it is cut; negative counts from the back.
        value: A scalar for the size of each slice (the last may be smaller), or a 1-D value for
            the sizes one by one.
        is_scalar: Which of the two ``value`` is.
        is_whole: Whether the sizes are made to add up to the axis.
    """

    tensor: ir.Value
    axis: int
    value: ir.Value
    is_scalar: bool
    is_whole: bool

    def number(self, typing: Typing) -> int | None:
        """Return the number of slices if it is a constant."""
        if typing.dims(self.tensor) is None:
            return None
        if not self.is_scalar:
            sizes = constant_value(self.value)
            return None if sizes is None else int(sizes.size)
        dim, size = typing.dim(self.tensor, self.axis), self._one_size()
        return -(-dim // size) if isinstance(dim, int) and size is not None else None

    def count(
        self,
        builder: Builder,
        dim: ir.Value,
        typing: Typing | None,
        number: Callable[[int], ir.Value],
        size_of: str,
    ) -> ir.Value:
        """Record the number of slices.

        Args:
            builder: Writes the graph that holds the tensor.
            dim: The dimension that is cut, in the form that is wanted: a vector or a scalar.
            typing: The proven typing, if there is one.
            number: Records a number in that form.
            size_of: The operator that yields the length of a vector in that form.
        """
        if not self.is_scalar:
            return builder.op(size_of, [self.value])
        size = None if typing is None else self.even_size(typing)
        if size is not None:
            return builder.op("Div", [dim, number(size)])
        # Range refuses a size of 0, as the cut itself does.
        each = self._as_int64(builder)
        return builder.op(size_of, [starts_by(builder, self.tensor, self.axis, each)])

    def length_key(self, typing: Typing) -> object:
        """See `passes.maps.element_source.ElementSource.length_key`."""
        if not self.is_scalar:
            sizes = constant_value(self.value)
            return self.value if sizes is None else sizes.size
        dim, size = typing.dim(self.tensor, self.axis), self._one_size()
        if size is not None and isinstance(dim, int):
            return -(-dim // size)
        return self.tensor, self.axis, self.value if size is None else size

    def even_size(self, typing: Typing) -> int | None:
        """Return the size of the slices if it is one constant number."""
        if typing.dims(self.tensor) is None:
            return None
        if self.is_scalar:
            size, dim = self._one_size(), typing.dim(self.tensor, self.axis)
            return size if size is not None and isinstance(dim, int) and dim % size == 0 else None
        of_all = repeated_number(self.value)
        return None if of_all is None else int(of_all)

    def differ(self, typing: Typing) -> bool:
        """Whether not all slices have one size, by proof."""
        if not self.is_scalar:
            sizes = constant_value(self.value)
            return sizes is not None and len({int(n) for n in sizes}) > 1
        dim, size = typing.dim(self.tensor, self.axis), self._one_size()
        return isinstance(dim, int) and size is not None and dim > size and bool(dim % size)

    def prepare(self, builder: Builder, dtype: ir.DataType | None) -> Read:
        """See `passes.maps.element_source.ElementSource.prepare`."""
        size = None if self.is_scalar else repeated_number(self.value)
        if self.axis == 0 and size is not None and size >= 0:
            rows = in_slices(builder, self.tensor, 0, builder.op("Shape", [self.value]), int(size))
            of_one = SlicesOfOne(rows, 0, keepdims=False, is_reversed=False)
            return typed(prepare_slices_of_one(builder, of_one, dtype), dtype)
        ends, starts = self._bounds(builder)
        return typed(prepare_slices(self.tensor, self.axis, starts, ends), dtype)

    def stack(
        self, builder: Builder, typing: Typing, count: Callable[[], ir.Value]
    ) -> ir.Value | None:
        """Cut axis ``a`` of size ``B * c`` into ``[B, c]`` and bring ``B`` to the front.

        Args:
            builder: Writes the graph that holds the tensor.
            typing: The proven typing.
            count: Records the number of slices, int64 ``[1]``.

        Returns:
            The slices of one size ``c``, stacked; None where that is not known.
        """
        dims, size = typing.dims(self.tensor), self.even_size(typing)
        if dims is None or size is None:
            return None
        axis = self.axis % len(dims)
        cut = in_slices(builder, self.tensor, axis, count(), size, len(dims))
        if axis == 0:
            return cut
        order = [axis, *(i for i in range(len(dims) + 1) if i != axis)]
        return builder.op("Transpose", [cut], {"perm": order})

    def write(self, builder: Builder, typing: Typing | None) -> ir.Value:
        """See `passes.maps.element_source.Slices.sizes`."""
        sizes = self._as_int64(builder)
        if self.is_scalar:
            return sizes_by(builder, self.tensor, self.axis, sizes)
        if self.is_whole or self._fit(typing):
            return sizes
        return checked_sizes(builder, self.tensor, self.axis, sizes)

    def _bounds(self, builder: Builder) -> tuple[ir.Value, ir.Value]:
        """Record the rows behind the last one of each slice, and the first rows, ``[B, 1]``."""
        behind = builder.ints(1)
        if not self.is_scalar:
            sizes = builder.op("Unsqueeze", [self.write(builder, None), behind])
            ends = builder.op("CumSum", [sizes, builder.scalar(0)])
            return ends, builder.op("Sub", [ends, sizes])
        size = self._as_int64(builder)
        starts = builder.op(
            "Unsqueeze", [starts_by(builder, self.tensor, self.axis, size), behind]
        )
        return builder.op("Add", [starts, size]), starts

    def _as_int64(self, builder: Builder) -> ir.Value:
        """Record the sizes, or the one size, as int64."""
        return builder.op("Cast", [self.value], {"to": int(ir.DataType.INT64)})

    def _fit(self, typing: Typing | None) -> bool:
        """Whether constant sizes are proven to add up to the axis."""
        sizes = constant_value(self.value)
        dims = None if typing is None else typing.dims(self.tensor)
        if sizes is None or dims is None:
            return False
        return bool((sizes >= 0).all() and sizes.sum() == dims[self.axis])

    def _one_size(self) -> int | None:
        """Return the size of all slices but the last, if it is a constant.

        Raises:
            RewriteError: It is not positive, which is an error of ONNX.
        """
        size = constant_value(self.value) if self.is_scalar else None
        if size is None:
            return None
        if size <= 0:
            raise RewriteError(
                f"'{self.tensor.name}' is cut into slices of {int(size.item())} rows, which ONNX"
                " does not allow; mend the model where it is made"
            )
        return int(size.item())
