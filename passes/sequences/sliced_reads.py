"""Reads a sequence of slices from the tensor that was cut: its length, an element, all joined."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import END, Builder
from passes.graph.zero_sizes import LEAST_OPSET
from passes.maps.element_source import Read
from passes.sequences.parts import Piece, Sliced
from passes.typing.value_types import Typing

__all__ = ["SlicedReader"]

_ALLOWZERO = 14
"""First opset in which Reshape takes a 0 as a dimension of 0."""

_SPLIT_INPUT = 13
"""First opset in which Split takes its sizes as an input."""


class SlicedReader:
    """Records reads of cut tensors.

    What several reads share stands where the sequence was cut: an error in the sizes is an error
    there, as it was before.
    """

    def __init__(self, typing: Typing, opset: int) -> None:
        """Set up the reader.

        Args:
            typing: A proven typing.
            opset: Version of ONNX's operators.
        """
        self._typing = typing
        self._opset = opset
        self._at_cut: dict[ir.Node, Builder] = {}
        self._pieces: dict[ir.Node, Sequence[ir.Value]] = {}
        self._checked: dict[ir.Node, ir.Value] = {}
        self._prepared: dict[ir.Node, Read] = {}

    def builders(self) -> dict[ir.Node, Builder]:
        """Return what is to be inserted before each SplitToSequence."""
        return self._at_cut

    def length(self, builder: Builder, sliced: Sliced) -> ir.Value:
        """Record the number of slices, an int64 scalar."""
        if sliced.count is not None:
            return builder.scalar(sliced.count)
        return sliced.source.scalar_count(builder, self._typing)

    def element(self, builder: Builder, sliced: Sliced, index: ir.Value) -> ir.Value | None:
        """Record the slice at a computed position, out of range an error as before.

        Returns:
            The slice; None where it cannot be read without a sequence.
        """
        source, dtype = sliced.source, self._typing.dtype(sliced.source.tensor)
        if dtype is None:
            return None
        if self._typing.rank(index) != 0:
            index = builder.op("Reshape", [index, builder.ints()])
        if source.split is None and dtype != ir.DataType.STRING:
            if source.keepdims:
                index = builder.op("Reshape", [index, builder.ints(1)])
            return builder.op("Gather", [source.tensor, index], {"axis": source.axis})
        checked = self.checked(sliced)
        if checked is None:
            return None
        if source.split is None:
            count = self.length(builder, sliced)
            every = builder.arange(count)
            index = builder.op("Gather", [every, index], {"axis": 0})
        if sliced.node not in self._prepared:
            whole = dataclasses.replace(source, tensor=checked)
            self._prepared[sliced.node] = whole.prepare(self._builder(sliced), dtype)
        return self._prepared[sliced.node](builder, index)

    def piece(self, builder: Builder, piece: Piece) -> ir.Value | None:
        """Record one slice of a known number of slices."""
        source, index = piece.sliced.source, piece.index
        if source.split is not None:
            pieces = self._split(piece.sliced)
            return None if pieces is None else pieces[index]
        dtype = self._typing.dtype(source.tensor)
        if dtype is None:
            return None
        if dtype != ir.DataType.STRING:
            position = builder.ints(index) if source.keepdims else builder.scalar(index)
            return builder.op("Gather", [source.tensor, position], {"axis": source.axis})
        axis = builder.ints(source.axis)
        bounds = [builder.ints(index), builder.ints(index + 1)]
        cut = builder.op("Slice", [source.tensor, *bounds, axis])
        return cut if source.keepdims else builder.op("Squeeze", [cut, axis])

    def joined(
        self, builder: Builder, sliced: Sliced, axis: int, *, new_axis: bool
    ) -> ir.Value | None:
        """Record what ConcatFromSequence makes of all slices; None if that takes their list."""
        source = sliced.source
        if self._is_whole(sliced, axis, new_axis=new_axis):
            return self.checked(sliced)
        rank = self._typing.rank(source.tensor)
        batched = None if rank is None else self._with_batch_axis(builder, sliced, rank)
        if rank is None or batched is None:
            return None
        at = source.axis % rank
        sample_rank = rank - 1 if source.split is None and not source.keepdims else rank
        places = sample_rank + 1 if new_axis else sample_rank
        if not -places <= axis < places:
            return None
        axis %= places
        order = [i for i in range(sample_rank + 1) if i != at]
        order.insert(axis, at)
        known = self._batched_dims(sliced)
        dims = None if known is None else [known[i] for i in order]
        if order != sorted(order):
            batched = builder.op("Transpose", [batched], {"perm": order})
        return batched if new_axis else self._merged(builder, batched, axis, dims)

    def checked(self, sliced: Sliced) -> ir.Value | None:
        """Return the tensor that is cut; sizes that do not add up to its axis are an error."""
        source = sliced.source
        if source.split is None or source.split_is_scalar:
            return source.tensor
        if sliced.sizes is not None and self._static_dim(sliced) is not None:
            return source.tensor
        if self._opset < _ALLOWZERO:
            return None
        if sliced.node not in self._checked:
            self._checked[sliced.node] = self._reshape_to_sum(sliced)
        return self._checked[sliced.node]

    def _reshape_to_sum(self, sliced: Sliced) -> ir.Value:
        builder, source = self._builder(sliced), sliced.source
        sizes = builder.op("Cast", [source.split], {"to": int(ir.DataType.INT64)})
        total = builder.op("ReduceSum", [sizes], {"keepdims": 1})
        shape = builder.op("Shape", [source.tensor])
        before = builder.op("Slice", [shape, builder.ints(0), builder.ints(source.axis)])
        parts = [before, total]
        if source.axis != -1:
            bounds = [builder.ints(source.axis + 1), builder.ints(END)]
            parts.append(builder.op("Slice", [shape, *bounds]))
        target = builder.op("Concat", parts, {"axis": 0})
        return builder.op("Reshape", [source.tensor, target], {"allowzero": 1})

    def _builder(self, sliced: Sliced) -> Builder:
        name = sliced.node.name or sliced.node.op_type
        return self._at_cut.setdefault(sliced.node, Builder(name))

    def _static_dim(self, sliced: Sliced) -> int | None:
        dims = self._typing.dims(sliced.source.tensor)
        dim = None if dims is None else dims[sliced.source.axis]
        return dim if isinstance(dim, int) else None

    def _split(self, sliced: Sliced) -> Sequence[ir.Value] | None:
        """Record one Split that yields all pieces, beside the cut."""
        source = sliced.source
        assert source.split is not None
        if sliced.count is None or sliced.count == 0:
            return None
        if self._opset < _SPLIT_INPUT and sliced.sizes is None:
            return None
        if sliced.node not in self._pieces:
            builder = self._builder(sliced)
            if sliced.sizes is not None:
                sizes = builder.ints(*sliced.sizes)
            else:
                sizes = builder.op("Cast", [source.split], {"to": int(ir.DataType.INT64)})
            node = builder.node(
                "Split", [source.tensor, sizes], {"axis": source.axis}, outputs=sliced.count
            )
            self._pieces[sliced.node] = node.outputs
        return self._pieces[sliced.node]

    def _is_whole(self, sliced: Sliced, axis: int, *, new_axis: bool) -> bool:
        """Whether joining the slices along an axis gives the tensor back."""
        source = sliced.source
        unstacks = source.split is None and not source.keepdims
        if unstacks is not new_axis:
            return False
        rank = self._typing.rank(source.tensor)
        if rank is None:
            return axis == source.axis
        return -rank <= axis < rank and axis % rank == source.axis % rank

    def _even_size(self, sliced: Sliced) -> int | None:
        """Return the size of the slices if all have one and fill the axis."""
        sizes = set(sliced.sizes or ())
        return sizes.pop() if len(sizes) == 1 and self._static_dim(sliced) is not None else None

    def _with_batch_axis(self, builder: Builder, sliced: Sliced, rank: int) -> ir.Value | None:
        """Give the tensor an axis for the slices where it is cut, before what stays of the axis.

        The axis itself is gone where slices do not keep it.
        """
        source = sliced.source
        if source.split is None:
            if not source.keepdims:
                return source.tensor
            return builder.op("Unsqueeze", [source.tensor, builder.ints(source.axis % rank + 1)])
        dims = self._batched_dims(sliced)
        static = [dim for dim in dims or () if isinstance(dim, int) and dim > 0]
        if dims is None or len(static) < len(dims):
            return None
        return builder.op("Reshape", [source.tensor, builder.ints(*static)])

    def _batched_dims(self, sliced: Sliced) -> list[int | str | None] | None:
        """Return the dimensions of the tensor that `_with_batch_axis` gives."""
        source, known = sliced.source, self._typing.dims(sliced.source.tensor)
        if known is None:
            return None
        dims, at = list(known), source.axis % len(known)
        if source.split is None:
            return [*dims[: at + 1], 1, *dims[at + 1 :]] if source.keepdims else dims
        size = self._even_size(sliced)
        if size is None or sliced.count is None:
            return None
        return [*dims[:at], sliced.count, size, *dims[at + 1 :]]

    def _merged(
        self,
        builder: Builder,
        value: ir.Value,
        axis: int,
        dims: Sequence[int | str | None] | None,
    ) -> ir.Value | None:
        """Merge an axis and the next one."""
        if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
            static = [dim for dim in dims if isinstance(dim, int)]
            merged = [*static[:axis], static[axis] * static[axis + 1], *static[axis + 2 :]]
            return builder.op("Reshape", [value, builder.ints(*merged)])
        if self._opset < LEAST_OPSET:
            return None
        shape = builder.op("Shape", [value])
        bounds = itertools.pairwise((0, axis, axis + 2, END))
        cut = [
            builder.op("Slice", [shape, builder.ints(start), builder.ints(end)])
            for start, end in bounds
        ]
        size = builder.op("ReduceProd", [cut[1]], {"keepdims": 1})
        target = builder.op("Concat", [cut[0], size, cut[2]], {"axis": 0})
        return builder.op("Reshape", [value, target], {"allowzero": 1})
