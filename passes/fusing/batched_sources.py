"""Reads the sources of a map: each becomes one tensor of all samples, or a loop reads it.

| source | read as |
| --- | --- |
| slices of one size of a tensor; elements that are proven or asked to have one shape | stacked |
| slices of given lengths; elements that differ along their first axis | packed |
| elements that differ along several axes, where rows or padded rows and sizes are at hand | flat |
| any other | sample by sample, in a loop |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.flat_views import LEAST_OPSET, read_view
from passes.fusing.flat_sources import FlatSources
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.maps.element_source import ElementSource
from passes.site import GuardCheck, MapSite
from passes.typing import Typings
from passes.typing.value_types import UNKNOWN

__all__ = ["BatchedSources"]


class BatchedSources:
    """The sources of a map, read as far as a guard allows.

    Attributes:
        prelude: Stacks the sources and counts the samples.
        batch: Number of samples, int64 ``[1]``.
        found: Each input of the body that is read as one tensor, of yet unknown type.
        asked: Sequences that are packed, and a placeholder for the lengths of their elements.
        needs_samples: Whether there must be samples where the prelude runs.
    """

    def __init__(
        self, site: MapSite, facts: FusionFacts, check: GuardCheck | None, relied: Relied | None
    ) -> None:
        """Read the sources.

        Args:
            site: The map.
            facts: What holds for all maps.
            check: What the guard asks; None if there is none.
            relied: What it checks of the elements of sequences; None for what is declared.
        """
        self.prelude = Builder(site.path, facts.opset)
        self.found: dict[ir.Value, Batched] = {}
        self.asked: dict[ir.Value, ir.Value] = {}
        self.needs_samples = False
        self._facts = facts
        self._check = check
        self._relied = relied or {}
        self._known: dict[ir.Value, Lengths] = {}
        self._stacks: dict[tuple[ElementSource, int | None], ir.Value | None] = {}
        self._cut: dict[Lengths, Lengths] = {}
        self._flat = FlatSources(self.prelude, facts.opset)
        first = site.elements[0][1]
        typing = facts.typings.proven
        self.batch = first.count(self.prelude, typing)
        key = first.length_key(typing)
        for inner, source in site.elements:
            is_as_long = check is not None or source.length_key(typing) == key
            read = self._read(inner, source, None if is_as_long else self.batch)
            if read is not None:
                self.found[inner] = read
                self.needs_samples |= source.sequence is not None and not read.is_flat

    def _read(
        self, inner: ir.Value, source: ElementSource, batch: ir.Value | None
    ) -> Batched | None:
        """Read a source.

        Args:
            inner: The input of the body that reads it.
            source: The source.
            batch: How many samples count, int64 ``[1]``; fewer are an error. None for all.
        """
        sequence = source.sequence
        view = None if sequence is None else read_view(sequence)
        if (
            view is not None
            and self._facts.options.takes_flat
            and self._facts.opset >= LEAST_OPSET
        ):
            return self._flat.read(view, batch)
        rank = self._rank(inner, sequence)
        value = self._stacked(source, rank)
        if value is not None:
            if batch is not None:
                dims = self._facts.typings.proven.static_dims(inner)
                value = _cut(self.prelude, value, batch, dims)
            return Batched(Layout.STACKED, value, UNKNOWN)
        asks_rows = self._check in (GuardCheck.ROWS, GuardCheck.LENGTHS)
        is_checked = sequence is not None and bool(rank) and asks_rows
        if not is_checked and not _can_pack(inner, source, self._facts.typings):
            return None
        if self._check is GuardCheck.LENGTHS and sequence is not None and self._known:
            self._known[sequence] = next(iter(self._known.values()))
        packed = _pack(self.prelude, source, self._facts.typings, self._ask_lengths, self._known)
        return packed if batch is None else _cut_packed(self.prelude, packed, batch, self._cut)

    def _rank(self, inner: ir.Value, sequence: ir.Value | None) -> int | None:
        if sequence is not None and sequence in self._relied:
            return len(self._relied[sequence])
        return self._facts.typings.declared.rank(inner)

    def _stacked(self, source: ElementSource, rank: int | None) -> ir.Value | None:
        """Stack a source whose samples have one shape, None if they may not."""
        typing, sequence = self._facts.typings.proven, source.sequence
        is_alike = source.has_one_shape(typing)
        if not is_alike and sequence is not None:
            is_alike = self._facts.is_promised(sequence) or self._check is GuardCheck.SHAPES
        if not is_alike:
            return None
        if (source, rank) not in self._stacks:  # two inputs of a body may read one source
            self._stacks[source, rank] = source.stack(self.prelude, rank, typing)
        return self._stacks[source, rank]

    def _ask_lengths(self, sequence: ir.Value) -> ir.Value:
        self.asked[sequence] = ir.Value(name="lengths", type=ir.TensorType(ir.DataType.INT64))
        return self.asked[sequence]


def _packed(value: ir.Value, lengths: Lengths, axis: int = 0) -> Batched:
    return Batched(Layout.PACKED, value, UNKNOWN, lengths=lengths, axis=axis)


def _can_pack(inner: ir.Value, source: ElementSource, typings: Typings) -> bool:
    """Whether the elements of a source differ along one axis at most, by proof.

    The elements of a sequence may differ along their first axis, slices along that of the cut.

    Args:
        inner: The input of the body that reads them.
        source: Where they come from.
        typings: Both typings of the model.
    """
    if source.sequence is None:
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


def _pack(
    builder: Builder,
    source: ElementSource,
    typings: Typings,
    lengths_of: Callable[[ir.Value], ir.Value],
    known: dict[ir.Value, Lengths],
) -> Batched:
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
    sequence = source.sequence
    if sequence is not None:
        value = builder.op("ConcatFromSequence", [sequence], {"axis": 0})
        if sequence not in known:
            known[sequence] = Lengths(builder, lengths_of(sequence))
        return _packed(value, known[sequence])
    cut, axis = source.as_slices, _axis(source, typings)
    assert cut is not None and cut.split is not None and axis is not None
    if cut.split_is_scalar:
        return _packed(cut.tensor, Lengths(builder, cut.sizes(builder)), axis)
    if cut.split not in known:
        sizes = cut.sizes(builder, typings.proven)
        constant = constant_value(cut.split)
        most = None if constant is None else int(constant.max(initial=0))
        known[cut.split] = Lengths(builder, sizes, most)
    return _packed(cut.tensor, known[cut.split], axis)


def _cut(
    builder: Builder, value: ir.Value, batch: ir.Value, dims: Sequence[int] | None
) -> ir.Value:
    """Cut surplus rows off a second source; fewer rows than samples are an error.

    Args:
        builder: Writes the graph that the map stands in.
        value: A row for each sample.
        batch: Number of samples, int64 ``[1]``.
        dims: Dimensions of a sample, if they are proven.
    """
    rows = builder.op("Slice", [value, builder.ints(0), batch, builder.ints(0)])
    rest = builder.shape(value, 1) if dims is None else builder.ints(*dims)
    target = batch if dims == () else builder.op("Concat", [batch, rest], {"axis": 0})
    return builder.op("Reshape", [rows, target], {"allowzero": 1})


def _cut_packed(
    builder: Builder, source: Batched, batch: ir.Value, known: dict[Lengths, Lengths]
) -> Batched:
    """Cut surplus samples off a second source; fewer samples are an error.

    Args:
        builder: Writes the graph that the map stands in.
        source: The source.
        batch: Number of samples, int64 ``[1]``.
        known: Lengths that were cut before: what was packed alike stays so.
    """
    if source.own_lengths not in known:
        sizes = builder.op("Slice", [source.own_lengths.value, builder.ints(0), batch])
        sizes = builder.op("Reshape", [sizes, batch], {"allowzero": 1})
        known[source.own_lengths] = Lengths(builder, sizes)
    kept, axis = known[source.own_lengths], builder.ints(source.axis)
    value = builder.op("Slice", [source.value, builder.ints(0), kept.total, axis])
    return _packed(value, kept, source.axis)
