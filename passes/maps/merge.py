"""Makes one map of a map that feeds a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from passes.flat_views import read_view
from passes.graph.node_copies import node_like
from passes.graph.splice import hand_over, remove_dead
from passes.maps.merged_maps import MergedMaps
from passes.maps.sequence_map import find_sequence_maps
from passes.maps.sequence_source import SequenceSource
from passes.promises import ceiling_of
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
        for members, merged in found:
            *others, last = (stands_for.get(one, one) for one in members)
            pairs += [(one, last) for one in others]
            stands_for[merged] = last
    for graph in {node.graph for node in stands_for if node.graph is not None}:
        graph.sort()
    return pairs


_MOST_AT_ONCE = 16
"""Each more is asked for what all those before yield."""


def _merge_each(model: ir.Model, keeps_views: bool) -> Iterator[tuple[list[ir.Node], ir.Node]]:
    """Merge each SequenceMap with some that read it, one after the other: these, and the new one.

    New maps wait for the next time: in a long chain bodies are then copied less often.
    """
    for _, first in find_sequence_maps(model):
        if first.graph is None or not _may_merge(first):
            continue
        members, merged = [first], MergedMaps.of(_as_sequences(first))
        while len(members) < _MOST_AT_ONCE and not (keeps_views and _is_view(members[-1])):
            following = _with_reader(merged)
            if following is None:
                break
            merged = following
            members.append(merged.sites[-1].node)
        if len(members) > 1:
            yield members, _write(members, merged)


def _is_view(node: ir.Node) -> bool:
    return read_view(node.outputs[0]) is not None


def _with_reader(merged: MergedMaps) -> MergedMaps | None:
    """Return maps with one that reads them, None where there is none that can be merged."""
    readers = map(_as_sequences, filter(_may_merge, merged.readers()))
    found = (merged.merged_with(reader, ()) for reader in readers)
    return next((more for more in found if more is not None), None)


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


def _write(members: Sequence[ir.Node], merged: MergedMaps) -> ir.Node:
    """Put one SequenceMap that yields the outputs of some into the place of the last of them."""
    last, site = members[-1], merged.site()
    assert last.graph is not None
    read = dict(site.elements)
    sequences = [read[inner].sequence for inner in site.body.inputs]
    new = node_like(last, sequences, [ir.AttrGraph("body", site.body)], len(site.results))
    for one in members:
        new.metadata_props.update(one.metadata_props)
    last.graph.insert_before(last, new)
    for result, value in zip(site.results, new.outputs, strict=True):
        hand_over(result.value, value)
    remove_dead(members[::-1])
    return new
