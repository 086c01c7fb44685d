"""Stacks the element sources of a map: one tensor ``[B, *s]`` for all samples."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import constant_value, is_default_domain
from passes.promises import Promises
from passes.site import ElementSource, IndexSource, SequenceSource, TensorSource
from passes.typing import Typings

__all__ = [
    "differ",
    "is_promised",
    "is_proven_equal",
    "reversed_along",
    "sample_count",
    "scalar_count",
    "stack",
    "static_count",
]


def is_proven_equal(source: ElementSource, typings: Typings) -> bool:
    """Whether all samples of a source have one shape, by proof.

    They do if they are slices of size 1; slices of one constant size that divides the
    dimension; slices of constant sizes that are all the same; or the elements of a
    SequenceConstruct of values of one static shape.
    """
    if isinstance(source, SequenceSource):
        return _constructed_equal(source.sequence, typings) is not None
    if isinstance(source, IndexSource):
        return True
    return source.split is None or _even_size(source, typings) is not None


def differ(source: ElementSource, typings: Typings) -> bool:
    """Whether not all samples of a source have one shape, by proof."""
    if isinstance(source, SequenceSource):
        node = source.sequence.producer()
        if node is None or node.op_type != "SequenceConstruct" or not is_default_domain(node):
            return False
        shapes = {None if v is None else typings.proven.static_dims(v) for v in node.inputs}
        return len(shapes - {None}) > 1
    if isinstance(source, IndexSource) or source.split is None:
        return False
    size, dims = constant_value(source.split), typings.proven.dims(source.tensor)
    if size is None:
        return False
    if not source.split_is_scalar:
        return len({int(n) for n in size}) > 1
    dim = None if dims is None else dims[source.axis % len(dims)]
    return isinstance(dim, int) and bool(dim > int(size) > 0 and dim % int(size))


def is_promised(sequence: ir.Value, promises: Promises, typings: Typings) -> bool:
    """Whether the caller vouches that all elements of a sequence have one shape."""
    if sequence.name in promises.uniform:
        return True
    promised = promises.input_shapes.get(sequence.name or "")
    if promised is not None and None not in promised:
        return True
    return promises.trust_types and typings.declared.static_dims(sequence) is not None


def _constructed_equal(sequence: ir.Value, typings: Typings) -> ir.Node | None:
    node = sequence.producer()
    if node is None or node.op_type != "SequenceConstruct" or not is_default_domain(node):
        return None
    shapes = {None if v is None else typings.proven.static_dims(v) for v in node.inputs}
    return node if len(shapes) == 1 and None not in shapes else None


def _even_size(source: TensorSource, typings: Typings) -> int | None:
    """Return the size of the slices if it is one constant number."""
    size = constant_value(source.split)
    dims = typings.proven.dims(source.tensor)
    if size is None or dims is None:
        return None
    if not source.split_is_scalar:
        sizes = {int(n) for n in size}
        return sizes.pop() if len(sizes) == 1 else None
    dim = dims[source.axis % len(dims)]
    number = int(size)
    return number if isinstance(dim, int) and number > 0 and dim % number == 0 else None


def static_count(source: ElementSource, typings: Typings) -> int | None:
    """Return the number of samples of a source if it is a constant."""
    if isinstance(source, SequenceSource):
        node = source.sequence.producer()
        if node is None or node.op_type != "SequenceConstruct" or not is_default_domain(node):
            return None
        return len(node.inputs)
    if isinstance(source, IndexSource):
        return source.number
    dims = typings.proven.dims(source.tensor)
    if dims is None:
        return None
    dim = dims[source.axis % len(dims)]
    if source.split is None:
        return dim if isinstance(dim, int) else None
    size = constant_value(source.split)
    if size is None:
        return None
    if not source.split_is_scalar:
        return int(size.size)
    return -(-dim // int(size)) if isinstance(dim, int) and size > 0 else None


def sample_count(builder: Builder, source: ElementSource, typings: Typings) -> ir.Value:
    """Return the number of samples of a source, as int64 ``[1]``."""
    if isinstance(source, SequenceSource):
        length = builder.op("SequenceLength", [source.sequence])
        return builder.op("Unsqueeze", [length, builder.ints(0)])
    if isinstance(source, IndexSource):
        return source.write_count(builder)
    shape = builder.op("Shape", [source.tensor])
    dim = builder.op("Gather", [shape, builder.ints(source.axis)], {"axis": 0})
    if source.split is None:
        return dim
    if not source.split_is_scalar:
        return builder.op("Shape", [source.split])
    size = _even_size(source, typings)
    if size is not None:
        return builder.op("Div", [dim, builder.ints(size)])
    cast = builder.op("Cast", [source.split], {"to": ir.DataType.INT64})
    most = builder.op("Sub", [builder.op("Add", [dim, cast]), builder.ints(1)])
    return builder.op("Div", [most, cast])


def scalar_count(builder: Builder, source: ElementSource, typings: Typings) -> ir.Value:
    """Return the number of samples of a source, as an int64 scalar."""
    if isinstance(source, IndexSource) and source.like is not None:
        source = source.like
    if isinstance(source, SequenceSource):
        return builder.op("SequenceLength", [source.sequence])
    return builder.op("Squeeze", [sample_count(builder, source, typings), builder.ints(0)])


def stack(
    builder: Builder, source: ElementSource, rank: int | None, typings: Typings
) -> ir.Value | None:
    """Record the stacked form of a source.

    Args:
        builder: Writes the graph that the map stands in.
        source: A source whose samples have one shape.
        rank: Rank of a sample, if known.
        typings: Tells ranks and sizes.

    Returns:
        ``[B, *s]``, or None where the rank that it needs is unknown. A sequence must not be
        empty when this runs.
    """
    if isinstance(source, SequenceSource):
        node = _constructed_equal(source.sequence, typings)
        if node is not None:
            rows = [builder.op("Unsqueeze", [v, builder.ints(0)]) for v in node.inputs]
            return builder.op("Concat", rows, {"axis": 0})
        attributes = {"axis": 0, "new_axis": 1}
        return builder.op("ConcatFromSequence", [source.sequence], attributes)
    if isinstance(source, IndexSource):
        # onnxruntime makes a Slice of a Gather by a Range, and a Slice has no row out of range.
        one = builder.scalar(1)
        end = builder.op("Add", [builder.op("Squeeze", [source.write_count(builder)]), one])
        return builder.op("Sub", [builder.op("Range", [one, end, one]), one])
    if source.split is not None:
        return _stack_slices(builder, source, typings)
    if source.is_reversed:
        tensor = reversed_along(builder, source.tensor, source.axis)
        source = dataclasses.replace(source, tensor=tensor, is_reversed=False)
    if source.axis == 0 and not source.keepdims:
        return source.tensor
    if rank is None:
        return None
    tensor_rank = rank if source.keepdims else rank + 1
    axis = source.axis % tensor_rank
    value = source.tensor
    if axis:
        order = [axis, *(i for i in range(tensor_rank) if i != axis)]
        value = builder.op("Transpose", [value], {"perm": order})
    if source.keepdims:
        value = builder.op("Unsqueeze", [value, builder.ints(axis + 1)])
    return value


def reversed_along(builder: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Record a tensor with the order along one axis turned round."""
    start, end = builder.ints(-1), builder.ints(int(np.iinfo(np.int64).min))
    return builder.op("Slice", [value, start, end, builder.ints(axis), builder.ints(-1)])


def _stack_slices(builder: Builder, source: TensorSource, typings: Typings) -> ir.Value | None:
    """Cut axis ``a`` of size ``B * c`` into ``[B, c]`` and bring ``B`` to the front."""
    dims = typings.proven.dims(source.tensor)
    size = _even_size(source, typings)
    if dims is None or size is None:
        return None
    axis = source.axis % len(dims)
    shape = builder.op("Shape", [source.tensor])
    before = builder.op("Slice", [shape, builder.ints(0), builder.ints(axis)])
    after = builder.op("Slice", [shape, builder.ints(axis + 1), builder.ints(len(dims))])
    count = sample_count(builder, source, typings)
    target = builder.op("Concat", [before, count, builder.ints(size), after], {"axis": 0})
    cut = builder.op("Reshape", [source.tensor, target], {"allowzero": 1})
    if axis == 0:
        return cut
    order = [axis, *(i for i in range(len(dims) + 1) if i != axis)]
    return builder.op("Transpose", [cut], {"perm": order})
