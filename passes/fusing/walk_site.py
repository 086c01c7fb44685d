"""Walks over the body of a map, its sources stacked or packed as far as a guard allows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.lengths import Lengths
from passes.batching.walk import WalkOptions
from passes.builder import Builder
from passes.fusing.fused_body import FusedBody, walk_body
from passes.fusing.fusion_facts import Check, FusionFacts, Relied
from passes.fusing.pack import Packed, ambiguous_symbols, can_pack, length_symbols, pack
from passes.fusing.stack import is_promised, is_proven_equal, sample_count, stack
from passes.site import MapSite, SequenceSource
from passes.sources import length_equals

__all__ = ["walk_site"]


def walk_site(
    site: MapSite,
    facts: FusionFacts,
    check: Check | None,
    *,
    relied: Relied | None = None,
    collects_lengths: bool = False,
) -> FusedBody:
    """Walk over a body as if a guard had checked the elements of all unproven sequences.

    Args:
        site: The map.
        facts: What holds for all maps.
        check: What the guard asks; None if there is none.
        relied: What it checks of the elements of sequences; None for what is declared.
        collects_lengths: Whether loops may collect what differs by length, and the lengths.
    """
    typings = facts.typings
    prelude = Builder(site.path)
    first = site.elements[0][1]
    batch = sample_count(prelude, first, typings)
    stacked: dict[ir.Value, ir.Value] = {}
    packed: dict[ir.Value, Packed] = {}
    asked: dict[ir.Value, ir.Value] = {}
    known: dict[ir.Value, Lengths] = {}
    cut: dict[Lengths, Lengths] = {}
    needs_samples = False

    def ask_lengths(sequence: ir.Value) -> ir.Value:
        asked[sequence] = ir.Value(name="lengths", type=ir.TensorType(ir.DataType.INT64))
        return asked[sequence]

    for inner, source in site.elements:
        is_as_long = check is not None or length_equals(first, source, typings.proven)
        is_sequence = isinstance(source, SequenceSource)
        rank = typings.declared.rank(inner)
        if relied and isinstance(source, SequenceSource) and source.sequence in relied:
            rank = len(relied[source.sequence])
        vouched = is_proven_equal(source, typings)
        if not vouched and isinstance(source, SequenceSource):
            promised = is_promised(source.sequence, facts.promises, typings)
            vouched = promised or check is Check.SHAPES
        value = stack(prelude, source, rank, typings) if vouched else None
        if value is not None:
            stacked[inner] = value if is_as_long else _cut(prelude, value, batch)
            needs_samples |= is_sequence
            continue
        checked = is_sequence and bool(rank) and check in (Check.ROWS, Check.LENGTHS)
        if checked or can_pack(inner, source, typings):
            if check is Check.LENGTHS and isinstance(source, SequenceSource):
                known |= {source.sequence: next(iter(known.values()))} if known else {}
            packed[inner] = pack(prelude, source, typings, ask_lengths, known)
            if not is_as_long:
                packed[inner] = _cut_packed(prelude, packed[inner], batch, cut)
            needs_samples |= is_sequence
    view = facts.checked_typings(check, site, relied)
    apart = {inner for inner, _ in site.elements} - {*stacked, *packed}
    options = WalkOptions(
        opset=facts.opset,
        batch=batch,
        may_be_empty=not needs_samples,
        exact=facts.exact,
        paths=facts.paths,
        lengths=length_symbols(site, packed, view.proven),
        ambiguous=ambiguous_symbols(site, apart, view.proven) if collects_lengths else None,
        lacks=facts.lacks,
    )
    body = walk_body(site, view, options, prelude, stacked, packed)
    body.asked = asked
    return body


def _cut(builder: Builder, value: ir.Value, batch: ir.Value) -> ir.Value:
    """Cut surplus rows off a second source; fewer rows than samples are an error."""
    rows = builder.op("Slice", [value, builder.ints(0), batch, builder.ints(0)])
    shape = builder.op("Shape", [value])
    rest = builder.op("Slice", [shape, builder.ints(1), builder.ints(np.iinfo(np.int64).max)])
    target = builder.op("Concat", [batch, rest], {"axis": 0})
    return builder.op("Reshape", [rows, target], {"allowzero": 1})


def _cut_packed(
    builder: Builder, source: Packed, batch: ir.Value, known: dict[Lengths, Lengths]
) -> Packed:
    """Cut surplus samples off a second source; fewer samples are an error.

    Args:
        builder: Writes the graph that the map stands in.
        source: The source.
        batch: Number of samples, int64 ``[1]``.
        known: Lengths that were cut before: what was packed alike stays so.
    """
    if source.lengths not in known:
        sizes = builder.op("Slice", [source.lengths.value, builder.ints(0), batch])
        sizes = builder.op("Reshape", [sizes, batch], {"allowzero": 1})
        known[source.lengths] = Lengths(builder, sizes)
    kept, axis = known[source.lengths], builder.ints(source.axis)
    value = builder.op("Slice", [source.value, builder.ints(0), kept.total, axis])
    return Packed(value, kept, source.axis)
