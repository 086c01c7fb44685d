"""Names that are unique over the whole model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import onnx_ir as ir

from passes.graphs import PATH_KEY, all_graphs
from passes.outer_outputs import connect_outer_outputs

__all__ = ["make_names_unique"]


def _fresh(base: str, taken: set[str]) -> str:
    candidate, count = base, 1
    while candidate in taken:
        candidate, count = f"{base}_{count}", count + 1
    taken.add(candidate)
    return candidate


def _values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def make_names_unique(model: ir.Model) -> bool:
    """Give every value of the model, and every node of a graph, a name of its own.

    onnxruntime refuses models in which a value of a body and a later value outside of it share
    a name, although onnx.checker accepts them. Inputs, outputs and initializers of the main
    graph keep their names, and so does the first value of each other name.

    Returns:
        Whether a name was changed, or an output connected that was bound to a value by its name
        only.
    """
    changed = connect_outer_outputs(model)
    graphs = list(all_graphs(model))
    fixed = {*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()}
    renamed = [*_rename_values(graphs, fixed), *_rename_nodes(graphs)]
    _tell_copies_apart(graphs)
    return changed or bool(renamed)


def _rename_values(graphs: Sequence[ir.Graph], fixed: Set[ir.Value]) -> list[ir.Value]:
    seen = {value.name for value in fixed}
    doubled = []
    for graph in graphs:
        for value in _values_of(graph):
            if value.name and value.name not in seen:
                seen.add(value.name)
            elif value not in fixed and (value.name != "" or value.uses()):
                doubled.append(value)
    if doubled:
        taken = {value.name for graph in graphs for value in _values_of(graph) if value.name}
        for value in doubled:
            value.name = _fresh(value.name or "value", taken)
    return doubled


def _rename_nodes(graphs: Sequence[ir.Graph]) -> list[ir.Node]:
    seen: set[str] = set()
    doubled = []
    for graph in graphs:
        for node in graph:
            if node.name in seen:
                doubled.append(node)
            elif node.name:
                seen.add(node.name)
    for node in doubled:
        node.name = _fresh(node.name or node.op_type, seen)
    return doubled


def _tell_copies_apart(graphs: Sequence[ir.Graph]) -> None:
    """Give each copy of a node a recorded path of its own; the first keeps the node's."""
    nodes = [node for graph in graphs for node in graph if PATH_KEY in node.meta]
    first = {path: node for node in reversed(nodes) if (path := node.meta[PATH_KEY])}
    taken = set(first)
    for node in nodes:
        if first[node.meta[PATH_KEY]] is not node:
            node.meta[PATH_KEY] = _fresh(node.meta[PATH_KEY], taken)
