"""Packs the element sources of a map: one tensor ``[T, *rest]`` and the lengths of the samples."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.builder import Builder
from passes.cut_sizes import cut_sizes
from passes.graphs import captured_values, constant_value
from passes.site import ElementSource, MapSite, SequenceSource, TensorSource
from passes.typing import Typing, Typings, ValueType

__all__ = [
    "Packed",
    "ambiguous_symbols",
    "can_pack",
    "length_symbols",
    "pack",
    "supposed_elements",
]


@dataclasses.dataclass(frozen=True)
class Packed:
    """A source whose elements lie one behind the other.

    Attributes:
        value: The tensor.
        lengths: The lengths of the elements.
        axis: The axis along which they lie.
    """

    value: ir.Value
    lengths: Lengths
    axis: int = 0


def can_pack(inner: ir.Value, source: ElementSource, typings: Typings) -> bool:
    """Whether the elements of a source differ along one axis at most, by proof.

    The elements of a sequence may differ along their first axis, slices along that of the cut.

    Args:
        inner: The input of the body that reads them.
        source: Where they come from.
        typings: Both typings of the model.
    """
    if isinstance(source, TensorSource):
        return source.split is not None and _axis(source, typings) is not None
    dims = typings.proven.dims(inner)
    return bool(dims) and all(typings.proven.is_one_number(d) for d in (dims or ())[1:])


def _axis(source: TensorSource, typings: Typings) -> int | None:
    """Return the axis of a cut, counted from the front; None if nothing tells it."""
    rank = typings.proven.rank(source.tensor)
    if source.axis >= 0:
        return source.axis
    return None if rank is None else source.axis + rank


def pack(
    builder: Builder,
    source: ElementSource,
    typings: Typings,
    lengths_of: Callable[[ir.Value], ir.Value],
    known: dict[ir.Value, Lengths],
) -> Packed:
    """Record the packed form of a source.

    Args:
        builder: Writes the graph that the map stands in.
        source: A source that can be packed.
        typings: Both typings of the model.
        lengths_of: Returns the lengths of the elements of a sequence, int64 ``[B]``.
        known: Lengths by the value that they come from; sources that share it are packed alike.

    Returns:
        The packed source. A sequence must not be empty when this runs.
    """
    if isinstance(source, SequenceSource):
        value = builder.op("ConcatFromSequence", [source.sequence], {"axis": 0})
        if source.sequence not in known:
            known[source.sequence] = Lengths(builder, lengths_of(source.sequence))
        return Packed(value, known[source.sequence])
    assert isinstance(source, TensorSource) and source.split is not None
    axis = _axis(source, typings)
    assert axis is not None
    if source.split_is_scalar:
        lengths = Lengths(builder, _sizes(builder, source, source.split))
        return Packed(source.tensor, lengths, axis)
    if source.split not in known:
        sizes = cut_sizes(builder, source, typings.proven)
        constant = constant_value(source.split)
        most = None if constant is None else int(constant.max(initial=0))
        known[source.split] = Lengths(builder, sizes, most)
    return Packed(source.tensor, known[source.split], axis)


def _sizes(builder: Builder, source: TensorSource, split: ir.Value) -> ir.Value:
    """Return the sizes of slices of one size, of which the last may be smaller."""
    size = builder.op("Cast", [split], {"to": ir.DataType.INT64})
    shape = builder.op("Shape", [source.tensor])
    rows = builder.op("Gather", [shape, builder.scalar(source.axis)], {"axis": 0})
    starts = builder.op("Range", [builder.scalar(0), rows, size])
    return builder.op("Min", [builder.op("Sub", [rows, starts]), size])


def length_symbols(
    site: MapSite, packed: Mapping[ir.Value, Packed], typing: Typing
) -> dict[str, Lengths]:
    """Return the symbols that stand for the length of a sample everywhere in a body.

    A symbol that a value from outside has too, or that two lengths share, stands for nothing.

    Args:
        site: The map.
        packed: The packed inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    found: dict[str, Lengths | None] = {}
    for inner, source in packed.items():
        dims, lengths = typing.dims(inner), source.lengths
        along = dims[source.axis] if dims else None
        if isinstance(along, str):
            found[along] = lengths if found.get(along, lengths) is lengths else None
    foreign = foreign_symbols(site, packed, typing)
    return {s: lengths for s, lengths in found.items() if lengths is not None and s not in foreign}


def foreign_symbols(site: MapSite, own: Collection[ir.Value], typing: Typing) -> set[str]:
    """Return the symbols of values that come from outside of a body, but for some of its inputs.

    Args:
        site: The map.
        own: Those inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    outer = {*captured_values(site.body), *(inner for inner, _ in site.shared)}
    outer |= {inner for inner, _ in site.elements if inner not in own}
    return {symbol for value in outer for symbol in _symbols(value, typing)}


def ambiguous_symbols(site: MapSite, apart: Collection[ir.Value], typing: Typing) -> set[str]:
    """Return the symbols that may not be the same dimension of a sample in a whole body.

    These are symbols from outside, and those that two inputs share.

    Args:
        site: The map.
        apart: The per-sample inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    counts = Counter(symbol for value in apart for symbol in _symbols(value, typing))
    repeated = {symbol for symbol, count in counts.items() if count > 1}
    return repeated | foreign_symbols(site, apart, typing)


def _symbols(value: ir.Value, typing: Typing) -> set[str]:
    return {dim for dim in typing.dims(value) or () if isinstance(dim, str)}


def supposed_elements(
    maps: Iterable[ir.Node],
    typing: Typing,
    relied: Mapping[ir.Value, tuple[int | str | None, ...]],
    *,
    rows: bool,
) -> Typing:
    """Return what guards have checked of elements.

    Args:
        maps: SequenceMap nodes.
        typing: The declared typing.
        relied: What is supposed of some sequences, whatever is declared.
        rows: Whether first dimensions may differ.
    """
    elements = Typing()
    for node in maps:
        body = node.attributes["body"].as_graph()
        for inner, outer in zip(body.inputs, node.inputs, strict=True):
            if outer is None:
                continue
            known = typing[inner]
            dims = relied.get(outer, known.dims)
            if dims or not rows:
                elements.set(outer, typing[outer])
                seen = (None, *dims[1:]) if rows and dims else dims
                elements.set(inner, ValueType(known.type, seen))
    return elements
