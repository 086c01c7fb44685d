"""Makes one map of a map that feeds a map."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.ceilings import ceiling_of
from passes.flat_views import read_view
from passes.graph.splice import remove_dead
from passes.maps.merged_maps import MergedMaps
from passes.maps.sequence_map import find_sequence_maps
from passes.maps.sequence_source import SequenceSource
from passes.site import MapResult, MapSite

__all__ = ["merge_sequence_maps"]


def merge_sequence_maps(
    model: ir.Model, *, keeps_views: bool = False
) -> list[tuple[ir.Node, ir.Node]]:
    """Merge SequenceMaps that feed SequenceMaps until none is left that can be merged.

    ``n = Map(m, ...)`` and ``m = Map(x, ...)`` become one map over ``x``, provided that

    1. both have the same number of samples: the first sequence of the second map is an output
       of the first map, or the first sequence of that map;
    2. nothing else that the second map reads depends on the first;
    3. neither has a ceiling.

    Args:
        model: The model.
        keeps_views: Leave alone the maps that only say how flat samples lie.

    Returns:
        The pairs that were merged, in the model's own nodes: each map that is gone, and the one
        whose name its work now bears.
    """
    pairs: list[tuple[ir.Node, ir.Node]] = []
    stands_for: dict[ir.Node, ir.Node] = {}
    while found := list(_merge_each(model, keeps_views)):
        for first, second, merged in found:
            given = stands_for.get(second, second)
            pairs.append((stands_for.get(first, first), given))
            stands_for[merged] = given
    for graph in {node.graph for node in stands_for if node.graph is not None}:
        graph.sort()
    return pairs


def _merge_each(model: ir.Model, keeps_views: bool) -> Iterator[tuple[ir.Node, ir.Node, ir.Node]]:
    """Merge each SequenceMap with one that reads it: both, and the new one.

    New maps wait for the next time: in a chain their bodies are then copied less often.
    """
    for _, first in find_sequence_maps(model):
        if first.graph is None or not _may_merge(first):
            continue
        if keeps_views and read_view(first.outputs[0]):
            continue
        readers = filter(_may_merge, MergedMaps.of(_as_sequences(first)).readers())
        pairs = ((second, _merge(first, second)) for second in readers)
        found = next(((second, new) for second, new in pairs if new is not None), None)
        if found is not None:
            yield (first, *found)


def _may_merge(node: ir.Node) -> bool:
    """Whether a SequenceMap has no ceiling, and is one that can be read."""
    if ceiling_of(node) or "body" not in node.attributes or None in node.inputs:
        return False
    body = node.attributes["body"].as_graph()
    ends = (len(body.inputs), len(body.outputs))
    return bool(node.inputs) and ends == (len(node.inputs), len(node.outputs))


def _as_sequences(node: ir.Node) -> MapSite:
    """Read a SequenceMap as if all that it reads were sequences: no type is known yet.

    A merge goes by values, whatever they are.
    """
    graph, body = node.graph, node.attributes["body"].as_graph()
    assert graph is not None
    pairs = zip(body.inputs, node.inputs, strict=True)
    elements = [(inner, SequenceSource(outer)) for inner, outer in pairs if outer is not None]
    results = [MapResult(i, "sequence", value) for i, value in enumerate(node.outputs)]
    return MapSite(node, graph, node.name or "", [*elements], [], body, results)


def _merge(first: ir.Node, second: ir.Node) -> ir.Node | None:
    """Put one SequenceMap that yields the outputs of both into the place of the second."""
    graph = second.graph
    assert graph is not None
    merged = MergedMaps.of(_as_sequences(first)).merged_with(_as_sequences(second), ())
    if merged is None:
        return None
    site = merged.site()
    read = dict(site.elements)
    new = ir.Node(
        second.domain,
        "SequenceMap",
        [read[inner].as_sequence for inner in site.body.inputs],
        [ir.AttrGraph("body", site.body)],
        num_outputs=len(site.results),
        name=second.name,
        doc_string=second.doc_string,
        metadata_props={**first.metadata_props, **second.metadata_props},
    )
    new.meta.update(second.meta)
    graph.insert_before(second, new)
    for result, value in zip(site.results, new.outputs, strict=True):
        old, name = result.value, result.value.name
        value.type, value.shape = old.type, old.shape
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        old.name, value.name = None, name
    remove_dead([second, first])
    return new
