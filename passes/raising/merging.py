"""Makes one Map of a Map that feeds a Map through a sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import onnx_ir as ir

from passes.graphs import captured_values, copy_nodes, subgraphs
from passes.maps.operator import is_map
from passes.site import ElementSource, IndexSource, MapSite, SequenceSource

__all__ = ["find_reader", "merge_sites"]


def find_reader(site: MapSite, members: Collection[ir.Node]) -> ir.Node | None:
    """Return the Map that has one sample for each of a map, and reads what that one yields.

    Nothing else that it reads may depend on the first map.

    Args:
        site: A map.
        members: The Maps that it consists of.
    """
    own = [result.value for result in site.results if result.kind == "sequence"]
    for value in own:
        for user, _ in value.uses():
            is_other = is_map(user) and user.graph is site.graph and user not in members
            if is_other and not _depends(user, own, site):
                return user
    return None


def _depends(reader: ir.Node, sequences: Collection[ir.Value], site: MapSite) -> bool:
    """Whether a Map reads something of another map by way of another node, or of another kind."""
    results = {result.value for result in site.results}
    body = reader.attributes["body"].as_graph()
    count = reader.attributes["count"].as_int()
    direct = [v for i, v in enumerate(reader.inputs) if v is not None and i != count]
    pending = [*captured_values(body), *(v for v in direct if v not in sequences)]
    seen: set[ir.Node] = set()
    while pending:
        value = pending.pop()
        if value in results:
            return True
        node = value.producer()
        if node is None or node in seen or node.graph is not site.graph:
            continue
        seen.add(node)
        pending += [v for v in node.inputs if v is not None]
        pending += [v for _, graph in subgraphs(node) for v in captured_values(graph)]
    return False


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
    values: dict[ir.Value, ir.Value | None] = {}
    elements: list[tuple[ir.Value, ElementSource]] = []
    for inner, source in first.elements:
        values[inner] = own = ir.Value(name=inner.name)
        elements.append((own, source))
    shared = _copied(first, values)
    nodes = copy_nodes(first.body, values)
    yielded = [_of(values, value) for value in first.body.outputs]
    index = next((own for own, s in elements if isinstance(s, IndexSource)), None)
    for inner, source in second.elements:
        if isinstance(source, SequenceSource) and source.sequence in outputs:
            values[inner] = yielded[outputs[source.sequence]]
        elif isinstance(source, IndexSource) and index is not None:
            values[inner] = index
        else:
            values[inner] = own = ir.Value(name=inner.name)
            elements.append((own, source))
    shared += _copied(second, values)
    nodes += copy_nodes(second.body, values)
    yielded += [_of(values, value) for value in second.body.outputs]
    for position, value in enumerate(yielded):
        if value in yielded[:position] or value.producer() not in nodes:
            nodes.append(ir.Node("", "Identity", [value], name=f"{second.path}/Identity"))
            yielded[position] = nodes[-1].outputs[0]
    moved = [
        dataclasses.replace(r, output=r.output + len(first.body.outputs)) for r in second.results
    ]
    inputs = [*(own for own, _ in elements), *(own for own, _ in shared)]
    kept = [r for r in first.results if not _vanishes(r.value, second.node, gone)]
    return dataclasses.replace(
        second,
        elements=elements,
        shared=shared,
        body=ir.Graph(inputs, yielded, nodes=nodes, name="sample"),
        results=[*kept, *moved],
        assumptions=[*first.assumptions, *second.assumptions],
        loop=None,
        given={},
    )


def _has_as_many(second: MapSite, sequences: Collection[ir.Value]) -> bool:
    """Whether a map has one sample for each element of one of some sequences."""
    source = second.elements[0][1]
    if isinstance(source, IndexSource):
        if source.like is None:
            return False
        source = source.like
    return isinstance(source, SequenceSource) and source.sequence in sequences


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


def _copied(
    site: MapSite, values: dict[ir.Value, ir.Value | None]
) -> list[tuple[ir.Value, ir.Value]]:
    made = []
    for inner, outer in site.shared:
        own = ir.Value(name=inner.name)
        values[inner] = own
        made.append((own, outer))
    return made


def _of(values: dict[ir.Value, ir.Value | None], value: ir.Value) -> ir.Value:
    found = values.get(value, value)
    assert found is not None
    return found
