"""Makes one map of a map that feeds a map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

import onnx_ir as ir

from passes.ceilings import ceiling_of
from passes.flat_views import read_view
from passes.graph.drafts import note
from passes.graph.graphs import captured_values, subgraphs
from passes.graph.node_copies import copy_nodes, copy_of
from passes.graph.splice import remove_dead
from passes.maps.element_source import ElementSource
from passes.maps.index_source import IndexSource
from passes.maps.operator import is_map
from passes.maps.sequence_map import find_sequence_maps, is_sequence_map
from passes.maps.sequence_source import SequenceSource
from passes.site import MapResult, MapSite

__all__ = ["find_readers", "merge_sequence_maps", "merge_sites"]


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
    return pairs


def _merge_each(model: ir.Model, keeps_views: bool) -> Iterator[tuple[ir.Node, ir.Node, ir.Node]]:
    """Merge each SequenceMap with what reads it, as often as it goes: both, and the new one."""
    for _, node in find_sequence_maps(model):
        first = node
        while first.graph is not None and _may_merge(first):
            if keeps_views and read_view(first.outputs[0]):
                break
            readers = filter(_may_merge, find_readers(_as_sequences(first), [first]))
            pairs = ((second, _merge(first, second)) for second in readers)
            found = next(((second, new) for second, new in pairs if new is not None), None)
            if found is None:
                break
            second, merged = found
            yield first, second, merged
            first = merged


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


def find_readers(site: MapSite, members: Collection[ir.Node]) -> Iterator[ir.Node]:
    """Yield each map that reads what another one yields, of the same operator.

    Nothing else that it reads may depend on the first map.

    Args:
        site: A map.
        members: The maps that it consists of.
    """
    is_alike = is_map if is_map(site.node) else is_sequence_map
    own = [result.value for result in site.results if result.kind == "sequence"]
    results = {result.value for result in site.results}
    for value in own:
        for user, _ in value.uses():
            if not is_alike(user) or user.graph is not site.graph or user in members:
                continue
            count = user.attributes.get_int("count", -1)
            direct = [v for i, v in enumerate(user.inputs) if i != count]
            if not _depends(user, direct, own, results):
                yield user


def _depends(
    reader: ir.Node,
    direct: Iterable[ir.Value | None],
    sequences: Collection[ir.Value],
    results: Collection[ir.Value],
) -> bool:
    """Whether a map reads something of another by way of another node, or of another kind.

    Args:
        reader: The map.
        direct: Its inputs.
        sequences: What it may read directly of the other map.
        results: All that the other map yields.
    """
    pending = [*_captured(reader), *(v for v in direct if v not in sequences)]
    seen: set[ir.Node] = set()
    while pending:
        value = pending.pop()
        if value in results:
            return True
        node = None if value is None else value.producer()
        if node is None or node in seen or node.graph is not reader.graph:
            continue
        seen.add(node)
        pending += [*node.inputs, *_captured(node)]
    return False


def _captured(node: ir.Node) -> list[ir.Value]:
    return [value for _, graph in subgraphs(node) for value in captured_values(graph)]


def merge_sites(first: MapSite, second: MapSite, gone: Collection[ir.Node]) -> MapSite | None:
    """Return one map that yields what two yield; the second reads a sequence of the first.

    The bodies are copied, and stand in no model. A result of the first that nothing but the
    second needs is no result any more.

    Args:
        first: A map.
        second: A map that `find_readers` found for it.
        gone: All nodes, at any depth, of the originals that become this map; none where there
            are none, and all results are kept.

    Returns:
        The map; None if the two need not have one number of samples.
    """
    outputs = {r.value: r.output for r in first.results if r.kind == "sequence"}
    if not _has_as_many(first, second, outputs.keys()):
        return None
    index = next((inner for inner, s in first.elements if s.kind == "index"), None)
    links: dict[ir.Value, ir.Value] = {}
    for inner, source in second.elements:
        sequence = source.as_sequence
        if sequence in outputs:
            links[inner] = first.body.outputs[outputs[sequence]]
        elif source.kind == "index" and index is not None:
            links[inner] = index
    body, copied = _joined(first.body, second.body, links, second.path)
    others = [(inner, source) for inner, source in second.elements if inner not in links]
    counted = first.elements[0][1]
    elements = [*first.elements, *((inner, _counted(one, counted)) for inner, one in others)]
    moved = [
        dataclasses.replace(r, output=r.output + len(first.body.outputs)) for r in second.results
    ]
    kept = [r for r in first.results if not gone or not _vanishes(r.value, second.node, gone)]
    return dataclasses.replace(
        second,
        elements=[(copied[inner], source) for inner, source in elements],
        shared=[(copied[inner], outer) for inner, outer in (*first.shared, *second.shared)],
        body=body,
        results=[*kept, *moved],
        originals=[*first.originals, *second.originals],
    )


def _counted(source: ElementSource, by: ElementSource) -> ElementSource:
    """Return a source that asks another for the number of samples: its own may be gone."""
    if not isinstance(source, IndexSource):
        return source
    return IndexSource(lambda builder: by.count(builder, None), source.known, by.counted)


def _has_as_many(first: MapSite, second: MapSite, sequences: Collection[ir.Value]) -> bool:
    """Whether a map has one sample for each of another, which yields some sequences."""
    counted = [site.elements[0][1].counted for site in (first, second)]
    one, other = (None if source is None else source.as_sequence for source in counted)
    return other is not None and (other in sequences or other is one)


def _vanishes(value: ir.Value, reader: ir.Node, gone: Collection[ir.Node]) -> bool:
    """Whether nothing needs a value any more once a Map that reads it, and Loops, are gone.

    A Loop that another Map was raised from needs what it reads: it may come back. So does a map
    that nothing reads: it is removed later, with a word on it.
    """
    pending, seen = [value], {reader}
    while pending:
        one = pending.pop()
        if one.is_graph_output():
            return False
        users = {user for user, _ in one.uses() if user not in gone} - seen
        seen |= users
        if any(user.graph is not reader.graph or _is_unread(user) for user in users):
            return False
        pending += [out for user in users for out in user.outputs]
    return True


def _is_unread(node: ir.Node) -> bool:
    return not any(out.uses() or out.is_graph_output() for out in node.outputs)


def _merge(first: ir.Node, second: ir.Node) -> ir.Node | None:
    """Put one SequenceMap that yields the outputs of both into the place of the second."""
    graph = second.graph
    assert graph is not None
    site = merge_sites(_as_sequences(first), _as_sequences(second), ())
    if site is None:
        return None
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
    graph.sort()
    return new


def _joined(
    first: ir.Graph, second: ir.Graph, links: Mapping[ir.Value, ir.Value], path: str
) -> tuple[ir.Graph, Mapping[ir.Value, ir.Value]]:
    """Copy two bodies into one that yields what both yield.

    Args:
        first: A body.
        second: Another body.
        links: For some inputs of the second what they are: an input or output of the first.
        path: Names new nodes.

    Returns:
        The body, and for each input and output of the two the one that stands for it there.
    """
    values: dict[ir.Value, ir.Value | None] = {}
    inputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    for body in (first, second):
        for old in body.inputs:
            if old in links:
                values[old] = values.get(links[old], links[old])
                continue
            inputs.append(ir.Value(name=old.name, type=old.type, shape=old.shape))
            values[old] = inputs[-1]
        nodes += copy_nodes(body, values)
    made, outputs = set(nodes), list[ir.Value]()
    for old in (*first.outputs, *second.outputs):
        value = copy_of(values, old)
        if value in outputs or value.producer() not in made:
            nodes.append(ir.Node("", "Identity", [value], name=f"{path}/Identity"))
            note(nodes[-1])
            value = nodes[-1].outputs[0]
        outputs.append(value)
    copied = {old: value for old, value in values.items() if value is not None}
    return ir.Graph(inputs, outputs, nodes=nodes, name=second.name), copied
