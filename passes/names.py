"""Names that are unique over the whole model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import onnx_ir as ir

from passes.graphs import all_graphs
from passes.outer_outputs import connect_outer_outputs

__all__ = ["make_names_unique"]


class _Fresh:
    """Makes names that are not taken; the numbers behind one base only grow."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._counts: dict[str, int] = {}

    def name(self, base: str) -> str:
        """Return the base, or the base with the first number that makes it new."""
        candidate, count = base, self._counts.get(base, 1)
        while candidate in self._taken:
            candidate, count = f"{base}_{count}", count + 1
        self._counts[base] = count
        self._taken.add(candidate)
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
        fresh = _Fresh(taken)
        for value in doubled:
            value.name = fresh.name(value.name or "value")
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
    fresh = _Fresh(seen)
    for node in doubled:
        node.name = fresh.name(node.name or node.op_type)
    return doubled
