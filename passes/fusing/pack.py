"""Packs the element sources of a map: one tensor ``[T, *rest]`` and the lengths of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.builder import Builder
from passes.graphs import captured_values, constant_value
from passes.site import ElementSource, MapSite, SequenceSource, TensorSource
from passes.typing import Typing, Typings, ValueType

__all__ = ["can_pack", "length_symbols", "pack", "rows_of_elements"]


def can_pack(inner: ir.Value, source: ElementSource, typings: Typings) -> bool:
    """Whether the elements of a source differ along their first axis at most, by proof.

    Args:
        inner: The input of the body that reads them.
        source: Where they come from.
        typings: Both typings of the model.
    """
    if isinstance(source, TensorSource):
        return source.split is not None and _first_axis(source, typings)
    dims = typings.proven.dims(inner)
    return bool(dims) and all(typings.proven.is_one_number(d) for d in (dims or ())[1:])


def _first_axis(source: TensorSource, typings: Typings) -> bool:
    rank = typings.proven.rank(source.tensor)
    return source.axis == 0 or (rank is not None and source.axis == -rank)


def pack(
    builder: Builder,
    source: ElementSource,
    lengths_of: Callable[[ir.Value], ir.Value],
    known: dict[ir.Value, Lengths],
) -> tuple[ir.Value, Lengths]:
    """Record the packed form of a source.

    Args:
        builder: Writes the graph that the map stands in.
        source: A source that can be packed.
        lengths_of: Returns the lengths of the elements of a sequence, int64 ``[B]``.
        known: Lengths by the value that they come from; sources that share it are packed alike.

    Returns:
        The tensor and its lengths. A sequence must not be empty when this runs.
    """
    if isinstance(source, SequenceSource):
        value = builder.op("ConcatFromSequence", [source.sequence], {"axis": 0})
        if source.sequence not in known:
            known[source.sequence] = Lengths(builder, lengths_of(source.sequence))
        return value, known[source.sequence]
    assert isinstance(source, TensorSource) and source.split is not None
    if source.split_is_scalar:
        return source.tensor, Lengths(builder, _sizes(builder, source, source.split))
    if source.split not in known:
        sizes = builder.op("Cast", [source.split], {"to": ir.DataType.INT64})
        constant = constant_value(source.split)
        most = None if constant is None else int(constant.max(initial=0))
        known[source.split] = Lengths(builder, sizes, most)
    return source.tensor, known[source.split]


def _sizes(builder: Builder, source: TensorSource, split: ir.Value) -> ir.Value:
    """Return the sizes of slices of one size, of which the last may be smaller."""
    size = builder.op("Cast", [split], {"to": ir.DataType.INT64})
    shape = builder.op("Shape", [source.tensor])
    rows = builder.op("Gather", [shape, builder.scalar(0)], {"axis": 0})
    starts = builder.op("Range", [builder.scalar(0), rows, size])
    return builder.op("Min", [builder.op("Sub", [rows, starts]), size])


def length_symbols(
    site: MapSite, packed: dict[ir.Value, tuple[ir.Value, Lengths]], typing: Typing
) -> dict[str, Lengths]:
    """Return the symbols that stand for the length of a sample everywhere in a body.

    A symbol that a value from outside has too, or that two lengths share, stands for nothing.

    Args:
        site: The map.
        packed: The packed inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    found: dict[str, Lengths | None] = {}
    for inner, (_, lengths) in packed.items():
        first = (typing.dims(inner) or (None,))[0]
        if isinstance(first, str):
            found[first] = lengths if found.get(first, lengths) is lengths else None
    outer = {*captured_values(site.body), *(inner for inner, _ in site.shared)}
    outer |= {inner for inner, _ in site.elements if inner not in packed}
    for value in outer:
        for dim in typing.dims(value) or ():
            if isinstance(dim, str):
                found.pop(dim, None)
    return {symbol: lengths for symbol, lengths in found.items() if lengths is not None}


def rows_of_elements(maps: Iterable[ir.Node], typing: Typing) -> Typing:
    """Return what guards of rows have checked: all dimensions of elements but the first.

    Args:
        maps: SequenceMap nodes.
        typing: The declared typing.
    """
    elements = Typing()
    for node in maps:
        body = node.attributes["body"].as_graph()
        for inner, outer in zip(body.inputs, node.inputs, strict=True):
            known = typing[inner]
            if outer is not None and known.dims:
                elements.set(outer, typing[outer])
                elements.set(inner, ValueType(known.type, (None, *known.dims[1:])))
    return elements
