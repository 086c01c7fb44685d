"""Chooses what an If asks of the elements of sequences before a fused body runs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.fusing.cost import estimate_guard
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import Check, FusionFacts
from passes.fusing.stack import is_promised, is_proven_equal, static_count
from passes.fusing.walk_site import walk_site
from passes.site import MapSite, SequenceSource

__all__ = ["choose_guards", "unproven_sequences", "walk_behind_guards"]


def unproven_sequences(site: MapSite, facts: FusionFacts) -> list[ir.Value]:
    """Return the sequences whose elements may differ in shape."""
    found = {
        source.sequence: None
        for _, source in site.elements
        if isinstance(source, SequenceSource)
        and not is_proven_equal(source, facts.typings)
        and not is_promised(source.sequence, facts.promises, facts.typings)
    }
    return list(found)


def walk_behind_guards(site: MapSite, facts: FusionFacts) -> dict[Check, FusedBody]:
    """Walk over a body behind every guard that could help.

    All of them ask for equal lengths, which sources of two known lengths never have.
    """
    if len({static_count(source, facts.typings) for _, source in site.elements} - {None}) > 1:
        return {}
    sequences = {s.sequence for _, s in site.elements if isinstance(s, SequenceSource)}
    found = {check: walk_site(site, facts, check) for check in (Check.SHAPES, Check.ROWS)}
    if len(sequences) > 1:
        found[Check.LENGTHS] = walk_site(site, facts, Check.LENGTHS)
    return found


def choose_guards(
    site: MapSite,
    facts: FusionFacts,
    plain: FusedBody,
    found: Mapping[Check, FusedBody],
    *,
    auto: bool,
) -> tuple[dict[Check | None, FusedBody], list[Reason]]:
    """Choose among a body without a guard and those behind one.

    A guard must at least double what is fused without one; with ``auto`` it must pay, too. Rows
    are asked for where that fuses as much as equal shapes do, unless a declared number says that
    shapes are equal; and after equal shapes where it fuses less, but more than no guard.
    """
    fused = {check: body.walk.fused for check, body in found.items()}
    gains = [check for check in found if fused[check] > 2 * plain.walk.fused]
    packed = max((c for c in gains if c is not Check.SHAPES), key=lambda c: fused[c], default=None)
    chosen: list[Check] = [Check.SHAPES] if Check.SHAPES in gains else []
    if packed is not None and not _first_is_number(site, facts):
        shapes_fuse_more = chosen and fused[Check.SHAPES] > fused[packed]
        chosen = [*chosen, packed] if shapes_fuse_more else [packed]
    if not chosen:
        return {None: plain}, []
    if auto:
        elements = [i for i, source in site.elements if isinstance(source, SequenceSource)]
        nodes = fused[chosen[0]] - plain.walk.fused
        estimate = estimate_guard(nodes, site.body, elements, facts.typings.declared)
        if not estimate.pays:
            return {None: plain}, [Reason(Code.COST, detail=estimate.explain())]
    return {check: found[check] for check in chosen}, []


def _first_is_number(site: MapSite, facts: FusionFacts) -> bool:
    """Whether the declared elements of all sequences have a number for their first dimension."""
    dims = [
        facts.typings.declared.dims(inner)
        for inner, source in site.elements
        if isinstance(source, SequenceSource)
    ]
    return all(d and isinstance(d[0], int) for d in dims)
