"""Makes one map of a map that feeds a map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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

__all__ = ["MergedMaps", "merge_sequence_maps"]


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


@dataclasses.dataclass(frozen=True)
class MergedMaps:
    """Maps of one number of samples, each but the first a reader of one before it.

    Their bodies are put together when the map is asked for, and stay as they are.

    Attributes:
        sites: The maps, in order.
        elements: What the samples of all are, but for what one map reads of another.
        results: What is still wanted of what they yield; positions are among ``outputs``.
        outputs: The outputs of their bodies.
        links: For some inputs of a body what they are: an input or output of one before it.
    """

    sites: Sequence[MapSite]
    elements: Sequence[tuple[ir.Value, ElementSource]]
    results: Sequence[MapResult]
    outputs: Sequence[ir.Value]
    links: Mapping[ir.Value, ir.Value]

    @classmethod
    def of(cls, site: MapSite) -> MergedMaps:
        """Begin with one map."""
        return cls([site], site.elements, site.results, site.body.outputs, {})

    def readers(self) -> Iterator[ir.Node]:
        """Yield each map of the same operator that reads what one of these yields.

        Nothing else that it reads may depend on one of these.
        """
        last = self.sites[-1].node
        members = {site.node for site in self.sites}
        is_alike = is_map if is_map(last) else is_sequence_map
        own = [result.value for result in self.results if result.kind == "sequence"]
        results = {result.value for result in self.results}
        for value in own:
            for user, _ in value.uses():
                if not is_alike(user) or user.graph is not last.graph or user in members:
                    continue
                count = user.attributes.get_int("count", -1)
                direct = [v for i, v in enumerate(user.inputs) if i != count]
                if not _depends(user, direct, own, results):
                    yield user

    def merged_with(self, second: MapSite, gone: Collection[ir.Node]) -> MergedMaps | None:
        """Add a map that reads a sequence of one of these.

        A result that nothing but the new map needs is no result any more.

        Args:
            second: A map that `readers` found.
            gone: All nodes, at any depth, of the originals that become this map; none where
                there are none, and all results are kept.

        Returns:
            The maps; None if the new one need not have their number of samples.
        """
        yielded = {r.value: self.outputs[r.output] for r in self.results if r.kind == "sequence"}
        counted = self.elements[0][1]
        if not _has_as_many(counted, second, yielded.keys()):
            return None
        index = next((inner for inner, s in self.elements if s.kind == "index"), None)
        links = dict(self.links)
        for inner, source in second.elements:
            if source.as_sequence in yielded:
                links[inner] = yielded[source.as_sequence]
            elif source.kind == "index" and index is not None:
                links[inner] = index
        others = [(inner, source) for inner, source in second.elements if inner not in links]
        kept = [r for r in self.results if not gone or not _vanishes(r.value, second.node, gone)]
        many = len(self.outputs)
        moved = [dataclasses.replace(r, output=r.output + many) for r in second.results]
        return MergedMaps(
            [*self.sites, second],
            [*self.elements, *((inner, _counted(one, counted)) for inner, one in others)],
            [*kept, *moved],
            [*self.outputs, *second.body.outputs],
            links,
        )

    def site(self) -> MapSite:
        """Return one map that yields what all yield; its body is new, and stands in no model."""
        last = self.sites[-1]
        body, copied = _joined([site.body for site in self.sites], self.links, last.path)
        shared = [pair for site in self.sites for pair in site.shared]
        return dataclasses.replace(
            last,
            elements=[(copied[inner], source) for inner, source in self.elements],
            shared=[(copied[inner], outer) for inner, outer in shared],
            body=body,
            results=[*self.results],
            originals=[one for site in self.sites for one in site.originals],
        )


def _has_as_many(first: ElementSource, second: MapSite, sequences: Collection[ir.Value]) -> bool:
    """Whether a map has one sample for each of another, which counts those of a source.

    Args:
        first: The source.
        second: The map.
        sequences: What the other map yields.
    """
    sources = (first.counted, second.elements[0][1].counted)
    one, other = (None if source is None else source.as_sequence for source in sources)
    return other is not None and (other in sequences or other is one)


def _counted(source: ElementSource, by: ElementSource) -> ElementSource:
    """Return a source that asks another for the number of samples: its own may be gone."""
    if not isinstance(source, IndexSource):
        return source
    return IndexSource(lambda builder: by.count(builder, None), source.known, by.counted)


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


def _joined(
    bodies: Sequence[ir.Graph], links: Mapping[ir.Value, ir.Value], path: str
) -> tuple[ir.Graph, Mapping[ir.Value, ir.Value]]:
    """Copy bodies into one that yields what all yield.

    Args:
        bodies: The bodies.
        links: For some inputs what they are: an input or output of a body before.
        path: Names new nodes.

    Returns:
        The body, and for each input and output of theirs the one that stands for it there.
    """
    values: dict[ir.Value, ir.Value | None] = {}
    inputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    for body in bodies:
        for old in body.inputs:
            if old in links:
                values[old] = values.get(links[old], links[old])
                continue
            inputs.append(ir.Value(name=old.name, type=old.type, shape=old.shape))
            values[old] = inputs[-1]
        nodes += copy_nodes(body, values)
    made, outputs = set(nodes), dict[ir.Value, None]()
    for old in (out for body in bodies for out in body.outputs):
        value = copy_of(values, old)
        if value in outputs or value.producer() not in made:
            nodes.append(ir.Node("", "Identity", [value], name=f"{path}/Identity"))
            note(nodes[-1])
            value = nodes[-1].outputs[0]
        outputs[value] = None
    copied = {old: value for old, value in values.items() if value is not None}
    return ir.Graph(inputs, [*outputs], nodes=nodes, name=bodies[-1].name), copied
