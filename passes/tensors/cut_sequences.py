"""Takes a sequence back to the tensor that it was cut off, through the branches of an If."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from passes.flat_views import read_view
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.if_outputs import branches_of
from passes.graph.made import before_identities
from passes.graph.splice import remove_dead
from passes.maps.sequence_source import cut_tensor
from passes.maps.tensor_source import TensorSource
from passes.typing import Typings

__all__ = ["Cut", "cut_of", "take_cut"]

Cut = Literal["stacked", "packed", "flat", "padded", "empty"]
_INT64 = ir.DataType.INT64


def cut_of(sequence: ir.Value, typings: Typings) -> Cut | None:
    """Return how a sequence was cut off a tensor.

    Args:
        sequence: A sequence that is returned by its graph.
        typings: Tells the rank of ``split``.

    Returns:
        ``stacked`` for the rows of a tensor, ``packed`` for slices of given sizes of its first
        axis, ``flat`` for such slices reshaped, ``padded`` for elements cut out of rows,
        ``empty`` for an empty sequence; for an If what its branches agree on; None for all else.
    """
    source = cut_tensor(sequence, typings.proven)
    if source is not None:
        return _of_slices(source, typings)
    made = before_identities(sequence)
    node, view = made.producer(), read_view(made)
    if view is not None:
        return "padded" if view.is_padded else "flat"
    if is_operator(node, "SequenceEmpty"):
        return "empty"
    if not is_operator(node, "If") or made is not sequence or sequence.uses():
        return None
    position = node.outputs.index(sequence)
    cuts = {cut_of(graph.outputs[position], typings) for graph in branches_of(node)}
    if cuts & {"flat", "padded"}:
        return None
    if len(cuts) == 2:
        cuts -= {"empty"}
    return cuts.pop() if len(cuts) == 1 else None


def _of_slices(source: TensorSource, typings: Typings) -> Cut | None:
    if source.axis != 0:
        return None
    if source.split is None:
        return None if source.keepdims else "stacked"
    if source.split_is_scalar or source.has_one_shape(typings.proven):
        return None
    return "packed"


def take_cut(
    builder: Builder,
    sequence: ir.Value,
    cut: Cut,
    dims: tuple[int | str | None, ...] | None,
    typings: Typings,
) -> list[ir.Value]:
    """Return the tensor that a sequence was cut off and the lengths, or sizes, if it has any.

    An If yields the tensors in place of the sequence.

    Args:
        builder: Writes the graph of the sequence, after all that it holds.
        sequence: A sequence for which `cut_of` gives a form.
        cut: That form, or ``empty`` where another branch has it.
        dims: What is known of the dimensions of its elements.
        typings: Both typings of the model.
    """
    source = cut_tensor(sequence, typings.proven)
    if source is not None:
        values = [builder.op("Identity", [source.tensor])]
        if cut == "packed":
            values.append(builder.op("Cast", [source.split], {"to": int(_INT64)}))
        return values
    made = before_identities(sequence)
    node = made.producer()
    assert node is not None
    view = read_view(made)
    if view is not None:
        return [builder.op("Identity", [value]) for value in (view.rows, view.sizes)]
    if node.op_type == "SequenceEmpty":
        return _nothing(builder, sequence, cut, dims)
    return _through_branches_of(node, sequence, cut, dims, typings)


def _nothing(
    builder: Builder, sequence: ir.Value, cut: Cut, dims: tuple[int | str | None, ...] | None
) -> list[ir.Value]:
    rest = [d if isinstance(d, int) else 0 for d in dims or ()][cut == "packed" :]
    dtype = sequence.dtype or ir.DataType.FLOAT
    empty = np.empty([0, *rest], object if dtype == ir.DataType.STRING else dtype.numpy())
    values = [builder.op("Identity", [builder.constant(empty)])]
    if cut == "packed":
        values.append(builder.op("Identity", [builder.constant(np.empty(0, np.int64))]))
    return values


def _through_branches_of(
    node: ir.Node,
    sequence: ir.Value,
    cut: Cut,
    dims: tuple[int | str | None, ...] | None,
    typings: Typings,
) -> list[ir.Value]:
    position = node.outputs.index(sequence)
    if dims is None:
        dims = _row_dims(node, position, typings)
    dtype = sequence.dtype or ir.DataType.UNDEFINED
    types = [ir.TensorType(dtype), ir.TensorType(_INT64)]
    for graph in branches_of(node):
        inner = Builder.at(node)
        old = graph.outputs[position]
        old.type = old.type or sequence.type
        values = take_cut(inner, old, cut, dims, typings)
        for value, type_ in zip(values, types, strict=False):
            value.type = type_
        graph.extend(inner.nodes)
        graph.outputs[position] = values[0]
        graph.outputs.extend(values[1:])
        if (producer := old.producer()) is not None:
            remove_dead([producer])
    found = [sequence]
    if cut == "packed":
        node.resize_outputs(len(node.outputs) + 1)
        found.append(node.outputs[-1])
    for value, type_ in zip(found, types, strict=False):
        value.type, value.shape = type_, None
    return found


def _row_dims(
    node: ir.Node, position: int, typings: Typings
) -> tuple[int | str | None, ...] | None:
    """Return what is known of the elements that a branch cuts off a tensor."""
    for graph in branches_of(node):
        source = cut_tensor(graph.outputs[position], typings.proven)
        if source is not None:
            dims = typings.declared.dims(source.tensor)
            if dims is not None:
                return dims if source.split is not None else dims[1:]
    return None
