"""Walks over the body of a map until each result can be made of what comes out."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched, Layout
from passes.batching.walk import Walk, WalkOptions
from passes.builder import Builder
from passes.decisions import Code, Reason
from passes.fusing.fused_body import FusedBody, is_in_place
from passes.fusing.pack import Packed
from passes.fusing.read_flat import Flat
from passes.site import MapResult, MapSite
from passes.typing import Typings

__all__ = ["walk_body"]


def walk_body(
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
        axis = x.flat.ragged_axis
        if axis is not None and result.kind == "concatenated":
            return result.axis in (axis, axis - len(x.flat.order))
        return result.kind == "sequence" and x.dtype is not None
    return not x.is_packed or is_in_place(result, x)


def _why_apart(node: ir.Node, options: WalkOptions) -> Reason:
    detail = "its samples differ in length, and are stacked or joined along another axis"
    return Reason(Code.RAGGED, options.paths.get(node) or node.op_type, node.op_type, detail)
