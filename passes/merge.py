"""Makes one map of a map that feeds a map."""

from __future__ import annotations

import onnx_ir as ir

from passes.ceilings import ceiling_of
from passes.graphs import captured_values, copy_nodes, subgraphs
from passes.sequence_map import find_sequence_maps, is_sequence_map
from passes.splice import remove_dead

__all__ = ["merge_maps"]


def merge_maps(model: ir.Model) -> list[tuple[ir.Node, ir.Node]]:
    """Merge maps that feed maps until none is left that can be merged.

    ``n = Map(m, ...)`` and ``m = Map(x, ...)`` become one map over ``x``, provided that

    1. both have the same number of samples: the first sequence of the second map is an output
       of the first map, or the first sequence of that map;
    2. nothing else that the second map reads depends on the first;
    3. neither has a ceiling.

    Returns:
        The pairs that were merged, in the model's own nodes: each map that is gone, and the one
        whose name its work now bears.
    """
    pairs: list[tuple[ir.Node, ir.Node]] = []
    stands_for: dict[ir.Node, ir.Node] = {}
    while pair := _find(model):
        first, second = pair
        merged = _merge(first, second)
        given = stands_for.get(second, second)
        pairs.append((stands_for.get(first, first), given))
        stands_for[merged] = given
    return pairs


def _find(model: ir.Model) -> tuple[ir.Node, ir.Node] | None:
    for graph, second in find_sequence_maps(model):
        if ceiling_of(second):
            continue
        for value in second.inputs:
            first = None if value is None else value.producer()
            if first is None or not is_sequence_map(first) or first.graph is not graph:
                continue
            if ceiling_of(first):
                continue
            if _same_samples(first, second) and not _depends(first, second):
                return first, second
    return None


def _same_samples(first: ir.Node, second: ir.Node) -> bool:
    return second.inputs[0] in first.outputs or second.inputs[0] is first.inputs[0]


def _reads(node: ir.Node) -> set[ir.Value]:
    captured = {v for _, g in subgraphs(node) for v in captured_values(g)}
    return captured | {v for v in node.inputs if v is not None}


def _depends(first: ir.Node, second: ir.Node) -> bool:
    """Whether the second map reads something of the first by way of another node."""
    own = set(first.outputs)
    captured = {v for _, g in subgraphs(second) for v in captured_values(g)}
    if captured & own:
        return True
    pending = [v for v in _reads(second) if v not in own]
    seen: set[ir.Node] = set()
    while pending:
        value = pending.pop()
        if value in own:
            return True
        node = value.producer()
        if node is None or node in seen or node.graph is not first.graph:
            continue
        seen.add(node)
        pending.extend(_reads(node))
    return False


def _merge(first: ir.Node, second: ir.Node) -> ir.Node:
    """Put one map that yields the outputs of both into the place of the second."""
    graph = second.graph
    assert graph is not None
    bodies = [node.attributes["body"].as_graph() for node in (first, second)]
    inputs = list(first.inputs)
    values: dict[ir.Value, ir.Value | None] = {}
    new_inputs = []
    for old in bodies[0].inputs:
        values[old] = own = _like(old)
        new_inputs.append(own)
    nodes = copy_nodes(bodies[0], values)
    results = [values.get(v, v) for v in bodies[0].outputs]
    for old, outer in zip(bodies[1].inputs, second.inputs, strict=True):
        if outer in first.outputs:
            values[old] = results[first.outputs.index(outer)]
        else:
            values[old] = own = _like(old)
            new_inputs.append(own)
            inputs.append(outer)
    nodes += copy_nodes(bodies[1], values)
    results += [values.get(v, v) for v in bodies[1].outputs]
    outputs = []
    for value in results:
        assert value is not None
        if value in outputs or value not in {o for n in nodes for o in n.outputs}:
            copied = ir.Node("", "Identity", [value], name=f"{second.name}/Identity")
            nodes.append(copied)
            value = copied.outputs[0]
        outputs.append(value)
    body = ir.Graph(new_inputs, outputs, nodes=nodes, name=bodies[1].name)
    new = ir.Node(
        second.domain,
        "SequenceMap",
        inputs,
        [ir.AttrGraph("body", body)],
        num_outputs=len(outputs),
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


def _like(value: ir.Value) -> ir.Value:
    return ir.Value(name=value.name, type=value.type, shape=value.shape)
