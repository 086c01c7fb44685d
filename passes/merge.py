"""Makes one map of a map that feeds a map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir

from passes.ceilings import ceiling_of
from passes.drafts import note
from passes.flat_views import read_view
from passes.graphs import captured_values, copy_nodes, subgraphs
from passes.maps.operator import is_map
from passes.sequence_map import find_sequence_maps, is_sequence_map
from passes.site import MapSite
from passes.splice import remove_dead

__all__ = ["find_reader", "merge_sequence_maps", "merge_sites"]


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
    while pair := _find(model, keeps_views):
        first, second = pair
        merged = _merge(first, second)
        given = stands_for.get(second, second)
        pairs.append((stands_for.get(first, first), given))
        stands_for[merged] = given
    return pairs


def _find(model: ir.Model, keeps_views: bool) -> tuple[ir.Node, ir.Node] | None:
    for graph, second in find_sequence_maps(model):
        if ceiling_of(second):
            continue
        for value in second.inputs:
            first = None if value is None else value.producer()
            if first is None or not is_sequence_map(first) or first.graph is not graph:
                continue
            if ceiling_of(first) or (keeps_views and read_view(first.outputs[0])):
                continue
            is_first_alike = second.inputs[0] in first.outputs or (
                second.inputs[0] is first.inputs[0]
            )
            own = set(first.outputs)
            if is_first_alike and not _depends(second, second.inputs, own, own):
                return first, second
    return None


def find_reader(site: MapSite, members: Collection[ir.Node]) -> ir.Node | None:
    """Return the Map that has one sample for each of a map, and reads what that one yields.

    Nothing else that it reads may depend on the first map.

    Args:
        site: A map.
        members: The Maps that it consists of.
    """
    own = [result.value for result in site.results if result.kind == "sequence"]
    results = {result.value for result in site.results}
    for value in own:
        for user, _ in value.uses():
            if not is_map(user) or user.graph is not site.graph or user in members:
                continue
            count = user.attributes["count"].as_int()
            direct = [v for i, v in enumerate(user.inputs) if i != count]
            if not _depends(user, direct, own, results):
                return user
    return None


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
        second: A map that `find_reader` found for it.
        gone: All nodes, at any depth, of the Loops that become this map.

    Returns:
        The map; None if the two need not have one number of samples.
    """
    outputs = {r.value: r.output for r in first.results if r.kind == "sequence"}
    if not _has_as_many(second, outputs.keys()):
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
    elements = [*first.elements, *(pair for pair in second.elements if pair[0] not in links)]
    moved = [
        dataclasses.replace(r, output=r.output + len(first.body.outputs)) for r in second.results
    ]
    kept = [r for r in first.results if not _vanishes(r.value, second.node, gone)]
    return dataclasses.replace(
        second,
        elements=[(copied[inner], source) for inner, source in elements],
        shared=[(copied[inner], outer) for inner, outer in (*first.shared, *second.shared)],
        body=body,
        results=[*kept, *moved],
        originals=[*first.originals, *second.originals],
    )


def _has_as_many(second: MapSite, sequences: Collection[ir.Value]) -> bool:
    """Whether a map has one sample for each element of one of some sequences."""
    counted = second.elements[0][1].counted
    return counted is not None and counted.as_sequence in sequences


def _vanishes(value: ir.Value, reader: ir.Node, gone: Collection[ir.Node]) -> bool:
    """Whether nothing needs a value any more once a Map that reads it, and Loops, are gone.

    A Loop that another Map was raised from needs what it reads: it may come back.
    """
    pending, seen = [value], {reader}
    while pending:
        one = pending.pop()
        if one.is_graph_output():
            return False
        users = {user for user, _ in one.uses() if user not in gone} - seen
        seen |= users
        if any(not user.outputs or user.graph is not reader.graph for user in users):
            return False
        pending += [out for user in users for out in user.outputs]
    return True


def _merge(first: ir.Node, second: ir.Node) -> ir.Node:
    """Put one SequenceMap that yields the outputs of both into the place of the second."""
    graph = second.graph
    assert graph is not None
    one, other = (node.attributes["body"].as_graph() for node in (first, second))
    given = dict(zip(first.outputs, one.outputs, strict=True))
    read = list(zip(other.inputs, second.inputs, strict=True))
    links = {inner: given[outer] for inner, outer in read if outer is not None and outer in given}
    body, _ = _joined(one, other, links, second.name or "")
    new = ir.Node(
        second.domain,
        "SequenceMap",
        [*first.inputs, *(outer for inner, outer in read if inner not in links)],
        [ir.AttrGraph("body", body)],
        num_outputs=len(body.outputs),
        name=second.name,
        doc_string=second.doc_string,
        metadata_props={**first.metadata_props, **second.metadata_props},
    )
    new.meta.update(second.meta)
    graph.insert_before(second, new)
    for old, value in zip((*first.outputs, *second.outputs), new.outputs, strict=True):
        name = old.name
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
        value = values.get(old) or old
        if value in outputs or value.producer() not in made:
            nodes.append(ir.Node("", "Identity", [value], name=f"{path}/Identity"))
            note(nodes[-1])
            value = nodes[-1].outputs[0]
        outputs.append(value)
    copied = {old: value for old, value in values.items() if value is not None}
    return ir.Graph(inputs, outputs, nodes=nodes, name=second.name), copied
