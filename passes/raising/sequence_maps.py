"""A SequenceMap as a Map node, for it to be merged with the Maps that Loops became."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.graphs import PATH_KEY, paths_below, record_paths, subgraphs
from passes.graph.node_copies import copy_graph
from passes.maps.sequence_map import read_sequence_map
from passes.maps.sites import write_map
from passes.promises import ceiling_of
from passes.raising.originals import replace_by_map
from passes.raising.results import type_results
from passes.site import MapSite, Original
from passes.typing import Typings

__all__ = ["raise_sequence_map"]


def raise_sequence_map(
    node: ir.Node, paths: dict[ir.Node, str], typings: Typings
) -> Original | None:
    """Put a Map into the place of a SequenceMap.

    One whose sequences may differ in length stays: that is said of SequenceMaps only. So does one
    in whose body graphs stand, what is done inside of it is done before; and one whose body has
    initializers, which `passes.maps.sequence_map` moves outside.

    Args:
        node: The SequenceMap.
        paths: Names the nodes; it gains those of the new body.
        typings: Both typings; they gain what was written.

    Returns:
        What the Map keeps of it; None where it stays.
    """
    site = _readable(node, paths[node], typings)
    if site is None:
        return None
    found = paths_below(site.body, f"{site.path}/body/")  # what a rewrite wrote has none yet
    record_paths({inner: paths.get(inner, path) for inner, path in found.items()})
    site = _copied(site, typings)
    paths |= {inner: inner.meta[PATH_KEY] for inner in site.body}
    builder = Builder(site.path)
    made = write_map(builder, site)
    written = dict(zip((r.value for r in site.results), made.outputs, strict=True))
    type_results(site, written, typings)
    return replace_by_map(site, builder.nodes, list(written.items()))


def _readable(node: ir.Node, path: str, typings: Typings) -> MapSite | None:
    """Read a SequenceMap; None if it is not to be raised."""
    graph, bodies = node.graph, [body for _, body in subgraphs(node)]
    if graph is None or ceiling_of(node) or any(body.initializers for body in bodies):
        return None
    if any(subgraphs(inner) for body in bodies for inner in body):
        return None
    try:
        site = read_sequence_map(node, graph, path, typings.declared)
    except RewriteError:
        return None
    return site if site.results and site.lengths_are_equal(typings.proven) else None


def _copied(site: MapSite, typings: Typings) -> MapSite:
    """Return a map with a body of its own."""
    values: dict[ir.Value, ir.Value | None] = {}
    body = copy_graph(site.body, values)
    typings.copy(values)
    pairs = dict(zip(site.body.inputs, body.inputs, strict=True))
    return dataclasses.replace(
        site,
        body=body,
        elements=[(pairs[inner], source) for inner, source in site.elements],
        shared=[(pairs[inner], outer) for inner, outer in site.shared],
    )
