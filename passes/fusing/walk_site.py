"""Walks over the body of a map, its sources stacked or packed as far as a guard allows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.walk import Walk, WalkOptions
from passes.builder import Builder
from passes.decisions import Code, Reason
from passes.flat_views import LEAST_OPSET, read_view
from passes.fusing.fused_body import FusedBody, is_in_place
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.fusing.pack import Packed, ambiguous_symbols, can_pack, length_symbols, pack
from passes.fusing.read_flat import Flat, Grids, read_flat
from passes.site import GuardCheck, MapResult, MapSite
from passes.typing import Typings

__all__ = ["walk_site"]


def walk_site(
    site: MapSite,
    facts: FusionFacts,
    check: GuardCheck | None,
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
    prelude = Builder(site.path, facts.opset)
    first = site.elements[0][1]
    batch = first.count(prelude, typings.proven)
    key = first.length_key(typings.proven)
    stacked: dict[ir.Value, ir.Value] = {}
    packed: dict[ir.Value, Packed] = {}
    asked: dict[ir.Value, ir.Value] = {}
    known: dict[ir.Value, Lengths] = {}
    cut: dict[Lengths, Lengths] = {}
    flat: dict[ir.Value, Flat] = {}
    grids: Grids = {}
    needs_samples = False

    def ask_lengths(sequence: ir.Value) -> ir.Value:
        asked[sequence] = ir.Value(name="lengths", type=ir.TensorType(ir.DataType.INT64))
        return asked[sequence]

    for inner, source in site.elements:
        is_as_long = check is not None or source.length_key(typings.proven) == key
        sequence = source.as_sequence
        is_sequence = sequence is not None
        rank = typings.declared.rank(inner)
        if relied and sequence is not None and sequence in relied:
            rank = len(relied[sequence])
        view = None if sequence is None else read_view(sequence)
        if view is not None and facts.options.takes_flat and facts.opset >= LEAST_OPSET:
            asked_batch = None if is_as_long else batch
            flat[inner] = read_flat(prelude, view, grids, asked_batch)
            continue
        vouched = source.has_one_shape(typings.proven)
        if not vouched and sequence is not None:
            vouched = facts.is_promised(sequence) or check is GuardCheck.SHAPES
        value = source.stack(prelude, rank, typings.proven) if vouched else None
        if value is not None:
            stacked[inner] = value if is_as_long else _cut(prelude, value, batch)
            needs_samples |= is_sequence
            continue
        checked = is_sequence and bool(rank) and check in (GuardCheck.ROWS, GuardCheck.LENGTHS)
        if checked or can_pack(inner, source, typings):
            if check is GuardCheck.LENGTHS and sequence is not None and known:
                known[sequence] = next(iter(known.values()))
            packed[inner] = pack(prelude, source, typings, ask_lengths, known)
            if not is_as_long:
                packed[inner] = _cut_packed(prelude, packed[inner], batch, cut)
            needs_samples |= is_sequence
    types = facts.checked_typings(check, site, relied)
    apart = {inner for inner, _ in site.elements} - {*stacked, *packed, *flat}
    options = WalkOptions(
        opset=facts.opset,
        batch=batch,
        may_be_empty=not needs_samples,
        paths=facts.paths,
        asked=facts.options,
        lengths=length_symbols(site, packed, types.proven),
        ambiguous=ambiguous_symbols(site, apart, types.proven) if collects_lengths else None,
    )
    body = _walk_body(site, types, options, prelude, stacked, packed, flat)
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


def _walk_body(
    site: MapSite,
    typings: Typings,
    options: WalkOptions,
    prelude: Builder,
    stacked: Mapping[ir.Value, ir.Value],
    packed: Mapping[ir.Value, Packed] | None = None,
    flat: Mapping[ir.Value, Flat] | None = None,
) -> FusedBody:
    """Walk over the body of a map until nothing ragged must pass from one loop to another.

    Args:
        site: The map.
        typings: Both typings of the model.
        options: The surroundings; ``options.batch`` is recorded in ``prelude``.
        prelude: Has stacked the sources.
        stacked: The inputs of the body that are stacked, and their tensors.
        packed: Those that are packed.
        flat: Those that are flat; loops read the sequence.
    """
    together, rows = dict(packed or {}), dict(flat or {})
    kept: dict[ir.Node, Reason | None] = {}
    while True:
        walk = Walk(typings, options, site.path)
        walk.stage(0)
        for inner, outer in site.shared:
            walk.bind(inner, Layout.SHARED, outer)
        for inner, source in site.elements:
            if inner in stacked:
                walk.bind(inner, Layout.STACKED, stacked[inner])
            elif inner in together:
                one = together[inner]
                walk.bind(inner, Layout.PACKED, one.value, one.lengths, one.axis)
            elif inner in rows:
                given = rows[inner]
                walk.bind(inner, Layout.FLAT, given.rows, flat=given.samples)
            else:
                walk.bind_apart(inner, differs=source.differs(typings.proven))
            count = source.given_count
            if count is not None:
                walk.numbers.count_samples(inner, count)
        walk.run(site.body, kept)
        torn = _read_apart(site, walk)
        if walk.demotions.nodes.keys() <= kept.keys() and not torn:
            break
        makers = [node for v in torn if (node := v.producer()) is not None]
        kept = walk.demotions.nodes | {n: _why_apart(n, options) for n in makers} | kept
        for value in torn:
            together.pop(value, None)
            rows.pop(value, None)
    bound = {*stacked, *together}
    sources = {inner: source for inner, source in site.elements if inner not in bound}
    return FusedBody(site, walk, prelude, options.batch, sources)


def _read_apart(site: MapSite, walk: Walk) -> list[ir.Value]:
    """Return the packed outputs of a body that some result joins along a different axis."""
    outputs = ((r, site.body.outputs[r.output]) for r in site.results)
    torn = (v for r, v in outputs if not _can_give(r, walk.read(v)))
    return list(dict.fromkeys(torn))


def _can_give(result: MapResult, x: Batched) -> bool:
    """Whether a result is made of a value without taking its samples apart."""
    if x.flat is not None:
        if x.flat.has_one_shape:
            return True
        if result.kind == "stacked":
            return True  # that they are alike is checked when the model runs
        if result.kind == "concatenated":
            return _can_join(result, x.flat)
        return result.kind == "sequence" and x.dtype is not None
    return not x.is_packed or is_in_place(result, x)


def _can_join(result: MapResult, flat: FlatSamples) -> bool:
    """Whether flat samples are joined along the one axis along which they differ, or beside all.

    That they are alike where they have to be is checked when the model runs.
    """
    axis = result.axis % len(flat.order)
    return not flat.is_ragged(axis) or flat.ragged_axis == axis


def _why_apart(node: ir.Node, options: WalkOptions) -> Reason:
    detail = "its samples differ in length, and are stacked or joined along another axis"
    return Reason(Code.RAGGED, options.paths.get(node) or node.op_type, node.op_type, detail)
