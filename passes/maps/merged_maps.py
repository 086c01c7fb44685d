"""Maps that read one another as one map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from passes.graph.drafts import note
from passes.graph.graphs import captured_values, is_used, subgraphs
from passes.graph.node_copies import copy_nodes, copy_of
from passes.maps.element_source import ElementSource
from passes.maps.index_source import IndexSource
from passes.maps.sequence_map import is_sequence_map
from passes.sequence_operators import is_map
from passes.site import MapResult, MapSite

__all__ = ["MergedMaps"]


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
            if source.sequence in yielded:
                links[inner] = yielded[source.sequence]
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
    one, other = (None if source is None else source.sequence for source in sources)
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
    return not any(is_used(out) for out in node.outputs)


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
