"""Chains of Maps: each reads what the one before it appends, and all are fused as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.planning import plan_fusion
from passes.graph.graphs import walk_nodes
from passes.maps.merged_maps import MergedMaps
from passes.reading.types import type_body
from passes.sequence_operators import is_map
from passes.site import MapSite, Original

__all__ = ["Chains", "is_in_parts", "maps_of"]


class Chains:
    """Looks for chains of Maps in one model."""

    def __init__(
        self, model: ir.Model, facts: FusionFacts, read: Callable[[ir.Node], MapSite]
    ) -> None:
        """Set up the search.

        Args:
            model: The model.
            facts: What holds for all maps.
            read: Reads a Map.
        """
        self._model = model
        self._facts = facts
        self._read = read

    def longest(self, node: ir.Node) -> FusionPlan | None:
        """Plan a Map merged with as many others as can be fused with it; None if none can.

        Where two can be fused together usually all can be: the whole chain is tried next, and
        what lies between only if that fails.
        """
        merged = self._merged(node)
        pair = next(merged, None)
        best = None if pair is None else self._plan(pair.site())
        if best is None:
            return None
        longer = list(merged)
        whole = self._plan(longer[-1].site()) if longer else None
        for maps in () if whole is not None else longer[:-1]:
            plan = self._plan(maps.site())
            if plan is None:
                break
            best = plan
        return whole or best

    def _merged(self, node: ir.Node) -> Iterator[MergedMaps]:
        """Yield a Map merged with the one that reads it, then with the one behind that too, ..."""
        first = self._read(node)
        gone = _nodes_of(first)
        merged: MergedMaps | None = MergedMaps.of(first)
        while merged is not None and (merged := self._merged_once(merged, gone)) is not None:
            yield merged

    def _merged_once(self, maps: MergedMaps, gone: set[ir.Node]) -> MergedMaps | None:
        """Merge maps with one that reads them.

        Args:
            maps: The maps.
            gone: All nodes of their originals; those of the new one are added.
        """
        for reader in maps.readers():
            second = self._read(reader)
            if any(map(is_in_parts, second.originals)):
                continue
            more = _nodes_of(second)
            gone |= more
            merged = maps.merged_with(second, gone)
            if merged is not None:
                return merged
            gone -= more
        return None

    def _plan(self, site: MapSite) -> FusionPlan | None:
        """Plan a map that was put together."""
        self._type(site)
        plan = plan_fusion(site, self._facts)
        return plan if isinstance(plan, FusionPlan) else None

    def _type(self, site: MapSite) -> None:
        """Enter the types of a body that was put together."""
        typings = self._facts.typings
        for inner, source in site.elements:
            typings.set(inner, source.element_type)
        typings.copy({outer: inner for inner, outer in site.shared})
        type_body(site.body, typings, self._model)


def is_in_parts(original: Original) -> bool:
    """Whether a Loop became more than one Map."""
    return original.rest is not None or len(maps_of(original)) > 1


def maps_of(original: Original) -> list[ir.Node]:
    """Return the Maps that a Loop became, in order."""
    return [node for node in original.written if is_map(node)]


def _nodes_of(site: MapSite) -> set[ir.Node]:
    """Return all nodes, at any depth, of what a map was raised from."""
    return set(walk_nodes(node for one in site.originals for node, _ in one.nodes))
