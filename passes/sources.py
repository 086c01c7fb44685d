"""How many samples a map has, and how a loop reads the one it is at."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.builder import Builder
from passes.cut_sizes import cut_sizes
from passes.graphs import constant_value, is_default_domain
from passes.sequence_map import sequence_source
from passes.site import ElementSource, IndexSource, MapSite, SequenceSource, TensorSource
from passes.typing import Typing

__all__ = ["PreparedSource", "length_equals", "lengths_are_equal", "prepare_source"]

_INT64 = ir.DataType.INT64


@dataclasses.dataclass(frozen=True)
class PreparedSource:
    """What a loop needs of an element source.

    Attributes:
        count: Records the number of elements, an int64 scalar: ``count(builder)``.
        read: Records the read of one element: ``read(builder, index)`` with an int64 scalar.
    """

    count: Callable[[Builder], ir.Value]
    read: Callable[[Builder, ir.Value], ir.Value]


def prepare_source(
    builder: Builder, source: ElementSource, dtype: ir.DataType | None
) -> PreparedSource:
    """Record what a loop over a source needs outside of it.

    Args:
        builder: Writes the graph that holds the loop.
        source: Where the elements come from.
        dtype: Their element type.
    """
    if isinstance(source, SequenceSource):
        prepared = _prepare_sequence(source)
    elif isinstance(source, IndexSource):
        prepared = _prepare_numbers(source)
    elif source.split is None:
        prepared = _prepare_slices_of_one(builder, source, dtype)
    else:
        prepared = _prepare_slices(builder, source, source.split)

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        element = prepared.read(inner, index)
        if dtype is not None:
            element.type = ir.TensorType(dtype)
        return element

    return PreparedSource(prepared.count, read)


def _prepare_sequence(source: SequenceSource) -> PreparedSource:
    def count(outer: Builder) -> ir.Value:
        return outer.op("SequenceLength", [source.sequence])

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        return inner.op("SequenceAt", [source.sequence, index])

    return PreparedSource(count, read)


def _prepare_numbers(source: IndexSource) -> PreparedSource:
    def count(outer: Builder) -> ir.Value:
        return outer.op("Squeeze", [source.write_count(outer), outer.ints(0)])

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        return inner.op("Identity", [index])

    return PreparedSource(count, read)


def _dim(builder: Builder, tensor: ir.Value, axis: int) -> ir.Value:
    return builder.op("Gather", [builder.op("Shape", [tensor]), builder.scalar(axis)], {"axis": 0})


def _prepare_slices_of_one(
    builder: Builder, source: TensorSource, dtype: ir.DataType | None
) -> PreparedSource:
    def count(outer: Builder) -> ir.Value:
        return _dim(outer, source.tensor, source.axis)

    last = None
    if source.is_reversed:
        last = builder.op("Sub", [_dim(builder, source.tensor, source.axis), builder.scalar(1)])

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        if last is not None:
            index = inner.op("Sub", [last, index])
        if dtype == ir.DataType.STRING:
            return _slice_of_one(inner, source, index)
        position = index
        if source.keepdims:
            position = inner.op("Unsqueeze", [index, inner.ints(0)])
        return inner.op("Gather", [source.tensor, position], {"axis": source.axis})

    return PreparedSource(count, read)


def _slice_of_one(builder: Builder, source: TensorSource, index: ir.Value) -> ir.Value:
    """Read by Slice: onnxruntime's Gather copies but the first string of each row."""
    start = builder.op("Unsqueeze", [index, builder.ints(0)])
    end = builder.op("Add", [start, builder.ints(1)])
    axis = builder.ints(source.axis)
    element = builder.op("Slice", [source.tensor, start, end, axis])
    return element if source.keepdims else builder.op("Squeeze", [element, axis])


def _prepare_slices(builder: Builder, source: TensorSource, split: ir.Value) -> PreparedSource:
    if source.split_is_scalar:
        size = builder.op("Cast", [split], {"to": int(_INT64)})
        dim = _dim(builder, source.tensor, source.axis)
        starts = builder.op("Range", [builder.scalar(0), dim, size])
        ends = builder.op("Add", [starts, size])
    else:
        sizes = cut_sizes(builder, source)
        ends = builder.op("CumSum", [sizes, builder.scalar(0)])
        starts = builder.op("Sub", [ends, sizes])

    def count(outer: Builder) -> ir.Value:
        return _dim(outer, starts, 0)

    def read(inner: Builder, index: ir.Value) -> ir.Value:
        position = inner.op("Unsqueeze", [index, inner.ints(0)])
        start = inner.op("Gather", [starts, position], {"axis": 0})
        end = inner.op("Gather", [ends, position], {"axis": 0})
        return inner.op("Slice", [source.tensor, start, end, inner.ints(source.axis)])

    return PreparedSource(count, read)


def lengths_are_equal(site: MapSite, typing: Typing) -> bool:
    """Whether all sources of a site have one number of elements, by proof.

    They do if they are one value, slices along one axis of one tensor, slices along dimensions
    that are one number (proven typing), cut by one ``split``, constructed of as many tensors, or
    results of maps over such.
    """
    keys = {_length_key(source, typing) for _, source in site.elements}
    return len(keys) == 1


def length_equals(one: ElementSource, other: ElementSource, typing: Typing) -> bool:
    """Whether two sources have one number of elements, by proof."""
    return _length_key(one, typing) == _length_key(other, typing)


def _length_key(source: ElementSource, typing: Typing) -> object:
    """Return a number, or what stands for the unknown number of elements of a source."""
    if isinstance(source, IndexSource):
        if source.like is None:
            return source if source.number is None else source.number
        source = source.like
    while isinstance(source, SequenceSource):
        node = source.sequence.producer()
        if node is None or not is_default_domain(node):
            return source.sequence
        if node.op_type == "SequenceConstruct":
            return len(node.inputs)
        mapped = node.inputs[0] if node.op_type == "SequenceMap" else None
        if mapped is None:
            return source.sequence
        source = sequence_source(mapped, typing)
    assert isinstance(source, TensorSource)
    dims = typing.dims(source.tensor)
    if source.split is not None:
        if source.split_is_scalar:
            size = constant_value(source.split)
            dim = None if dims is None else dims[source.axis % len(dims)]
            if size is not None and isinstance(dim, int):
                return -(-dim // int(size))
            return source.tensor, source.axis, source.split if size is None else int(size)
        sizes = constant_value(source.split)
        return source.split if sizes is None else sizes.size
    if dims is None:
        return source.tensor, source.axis
    axis = source.axis % len(dims)
    dim = dims[axis]
    return dim if typing.is_same_number(dim) else (source.tensor, axis)
