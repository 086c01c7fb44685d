"""Names that are unique over the whole model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graphs import all_graphs
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
    taken = {value.name for graph in graphs for value in _values_of(graph) if value.name}
    taken_by_nodes = {node.name for graph in graphs for node in graph if node.name}
    seen = {value.name for value in fixed}
    seen_nodes: set[str] = set()
    for graph in graphs:
        for value in list(_values_of(graph)):
            if value in fixed or (value.name == "" and not value.uses()):
                continue
            if not value.name or value.name in seen:
                value.name = _fresh(value.name or "value", taken)
                changed = True
            seen.add(value.name)
        for node in graph:
            if node.name in seen_nodes:
                node.name = _fresh(node.name or node.op_type, taken_by_nodes)
                changed = True
            if node.name:
                seen_nodes.add(node.name)
    return changed
