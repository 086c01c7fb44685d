"""Records what a guard asks before the fused body of a map runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import Builder
from passes.fusing.fusion_facts import Check
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.guards import Guards
from passes.fusing.stack import sample_count
from passes.site import MapSite, SequenceSource
from passes.sources import lengths_are_equal
from passes.typing import Typings

__all__ = ["declared_elements", "guard_holds"]


def guard_holds(
    builder: Builder, plan: FusionPlan, typings: Typings, guards: Guards, check: Check
) -> ir.Value:
    """Record what a guard asks: a boolean scalar."""
    site = plan.site
    if check is Check.SIZES:
        return _equally_long(builder, plan.fused[check].site.as_long)
    rows = check is not Check.SHAPES
    dims = {s: declared_elements(site, s, typings) for s in plan.guarded}
    if rows:  # nothing is relied on of elements of unknown rank, which stay per-sample
        dims = {s: known for s, known in dims.items() if known is not None}
    tests = [
        guards.is_uniform(builder, s, known, rows=rows and bool(known))
        for s, known in dims.items()
    ]
    tests += _equal_lengths(builder, site, typings)
    if check is Check.LENGTHS:
        lengths = [guards.lengths(builder, s, len(known)) for s, known in dims.items() if known]
        tests += [_all_equal(builder, lengths[0], other) for other in lengths[1:]]
    return functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)


def _equally_long(builder: Builder, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> ir.Value:
    """Record whether the tensors of each pair have equally many rows: a boolean scalar."""
    tests = []
    for pair in pairs:
        shapes = (builder.op("Shape", [tensor]) for tensor in pair)
        sizes = [builder.op("Gather", [s, builder.scalar(0)], {"axis": 0}) for s in shapes]
        tests.append(builder.op("Equal", sizes))
    return functools.reduce(lambda a, b: builder.op("And", [a, b]), tests)


def _all_equal(builder: Builder, one: ir.Value, other: ir.Value) -> ir.Value:
    """Record whether two vectors of lengths are the same, whatever their sizes are."""
    sizes = [builder.op("Shape", [v]) for v in (one, other)]
    least = builder.op("Min", sizes)
    cut = [builder.op("Slice", [v, builder.ints(0), least]) for v in (one, other)]
    differs = builder.op("Not", [builder.op("Equal", cut)])
    count = builder.op("ReduceSum", [builder.op("Cast", [differs], {"to": 7})], {"keepdims": 0})
    return builder.op("Equal", [count, builder.scalar(0)])


def declared_elements(
    site: MapSite, sequence: ir.Value, typings: Typings
) -> tuple[int | str | None, ...] | None:
    """Return what the body declares of the elements of a sequence.

    Several inputs of the body may read one sequence, and declare different parts of its type.
    """
    declared = [
        dims
        for inner, source in site.elements
        if isinstance(source, SequenceSource)
        and source.sequence is sequence
        and (dims := typings.declared.dims(inner)) is not None
    ]
    ranked = [dims for dims in declared if len(dims) == len(declared[0])]
    return tuple(map(_both, *ranked)) if ranked else None


def _both(*dims: int | str | None) -> int | str | None:
    """Return what declarations of one dimension say; where they differ -1, which none has."""
    numbers = {d for d in dims if isinstance(d, int)}
    if numbers:
        return numbers.pop() if len(numbers) == 1 else -1
    return dims[0]


def _equal_lengths(builder: Builder, site: MapSite, typings: Typings) -> list[ir.Value]:
    if lengths_are_equal(site, typings.proven):
        return []
    counts = [sample_count(builder, source, typings) for _, source in site.elements]
    return [
        builder.op("Squeeze", [builder.op("Equal", [counts[0], count]), builder.ints(0)])
        for count in counts[1:]
    ]
