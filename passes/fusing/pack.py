"""Packs the element sources of a map: one tensor ``[T, *rest]`` and the lengths of the samples."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.builder import Builder
from passes.graphs import captured_values, constant_value
from passes.maps.element_source import ElementSource, Slices
from passes.site import MapSite
from passes.typing import Typing, Typings

__all__ = [
    "Packed",
    "ambiguous_symbols",
    "can_pack",
    "length_symbols",
    "pack",
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
    if source.as_sequence is None:
        return _axis(source, typings) is not None
    dims = typings.proven.dims(inner)
    return bool(dims) and all(typings.proven.is_one_number(d) for d in (dims or ())[1:])


def _axis(source: ElementSource, typings: Typings) -> int | None:
    """Return the axis of a cut by sizes, from the front; None if it is none, or not known."""
    cut = source.as_slices
    if cut is None or cut.split is None:
        return None
    rank = typings.proven.rank(cut.tensor)
    if cut.axis >= 0:
        return cut.axis
    return None if rank is None else cut.axis + rank


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
    sequence = source.as_sequence
    if sequence is not None:
        value = builder.op("ConcatFromSequence", [sequence], {"axis": 0})
        if sequence not in known:
            known[sequence] = Lengths(builder, lengths_of(sequence))
        return Packed(value, known[sequence])
    cut, axis = source.as_slices, _axis(source, typings)
    assert cut is not None and cut.split is not None and axis is not None
    if cut.split_is_scalar:
        return Packed(cut.tensor, Lengths(builder, _sizes(builder, cut, cut.split)), axis)
    if cut.split not in known:
        sizes = cut.sizes(builder, typings.proven)
        constant = constant_value(cut.split)
        most = None if constant is None else int(constant.max(initial=0))
        known[cut.split] = Lengths(builder, sizes, most)
    return Packed(cut.tensor, known[cut.split], axis)


def _sizes(builder: Builder, source: Slices, split: ir.Value) -> ir.Value:
    """Return the sizes of slices of one size; the last may be smaller."""
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
