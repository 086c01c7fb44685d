"""Names that are unique over the whole model, and outputs that are bound by their name only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeAlias, TypeVar

import onnx_ir as ir

from passes.graph.graphs import (
    COPIED_KEY,
    PATH_KEY,
    all_graphs,
    captured_values,
    graphs_with_nodes,
    recorded_path,
    subgraphs,
    walk_nodes,
    with_subgraphs,
)

__all__ = [
    "connect_outer_outputs",
    "keep_names",
    "make_names_unique",
    "name_apart",
    "name_values_apart",
]


_Nodes: TypeAlias = tuple[ir.Graph, Sequence[ir.Node]]

_Named = TypeVar("_Named", ir.Value, ir.Node)


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
    graphs = list(graphs_with_nodes(model))
    unbound = any(_is_unbound(value) for graph, _ in graphs for value in graph.outputs)
    changed = unbound and connect_outer_outputs(model)
    if changed:
        graphs = list(graphs_with_nodes(model))
    nodes = [node for _, inner in graphs for node in inner]
    fixed = {*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()}
    renamed = [*_rename_values(graphs, fixed), *_rename_nodes(nodes)]
    _tell_copies_apart(nodes)
    return changed or bool(renamed)


def name_values_apart(body: ir.Graph) -> None:
    """Give each value of a body a name of its own; what the body captures keeps its name."""
    graphs = [(graph, list(graph)) for graph in with_subgraphs(body)]
    _rename_values(graphs, set(captured_values(body)))


def _rename_values(graphs: Sequence[_Nodes], fixed: Set[ir.Value]) -> list[ir.Value]:
    seen = {value.name for value in fixed}
    doubled = []
    for graph, nodes in graphs:
        values = [*graph.inputs, *graph.initializers.values()]
        values += [out for node in nodes for out in node.outputs]
        for value in values:
            name = value.name
            if name and name not in seen:
                seen.add(name)
            elif value not in fixed and (name != "" or value.uses()):
                doubled.append(value)
    if doubled:
        fresh = _Fresh({name for name in seen if name})
        for value in doubled:
            value.name = fresh.name(value.name or "value")
    return doubled


def _rename_nodes(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    seen: set[str] = set()
    doubled = []
    for node in nodes:
        name = node.name
        if name in seen:
            doubled.append(node)
        elif name:
            seen.add(name)
    fresh = _Fresh(seen)
    for node in doubled:
        node.name = fresh.name(node.name or node.op_type)
    return doubled


def _tell_copies_apart(nodes: Iterable[ir.Node]) -> None:
    """Give each copy of a node a recorded path of its own; the first keeps the node's."""
    paths: set[str] = set()
    copies: list[tuple[ir.Node, str]] = []
    for node in nodes:
        path = recorded_path(node)
        if path is None:
            continue
        if path in paths:
            copies.append((node, path))
        paths.add(path)
    fresh = _Fresh(paths)
    for node, path in copies:
        node.meta[PATH_KEY] = fresh.name(path)
        node.meta.setdefault(COPIED_KEY, path)


@contextlib.contextmanager
def keep_names(model: ir.Model) -> Iterator[None]:
    """Give all values and nodes of a model that are still there the names back that they had."""
    named: list[ir.Value | ir.Node] = []
    for graph in all_graphs(model):
        named += [*_values_of(graph), *graph]
    before = [(one, one.name) for one in named]
    yield
    for one, name in before:
        if one.name != name:
            one.name = name


def name_apart(model: ir.Model, nodes: Iterable[ir.Node]) -> None:
    """Give nodes, and all values that they or their bodies make, names that nothing else has.

    Args:
        model: The model.
        nodes: New nodes of it.
    """
    top = list(nodes)
    new = list(walk_nodes(top))
    bodies = [graph for node in new for _, graph in subgraphs(node)]
    # Values of a body come last: one of the names that they share may be that of an output.
    values = [out for node in top for out in node.outputs]
    values += [v for graph in bodies for v in _values_of(graph)]
    graphs = list(all_graphs(model))
    _name_apart(values, [v for graph in graphs for v in _values_of(graph)])
    _name_apart(new, [node for graph in graphs for node in graph])


def _name_apart(new: Sequence[_Named], every: Sequence[_Named]) -> None:
    own = set(new)
    fresh = _Fresh({one.name for one in every if one.name and one not in own})
    for one in dict.fromkeys(new):
        one.name = fresh.name(one.name or "value")


def connect_outer_outputs(model: ir.Model) -> bool:
    """Let every body pass on by Identity what it returns of an enclosing graph.

    SequenceMap allows a body to return a value that it captures. In onnx_ir such an output is a
    value of its own that nothing computes: the outer value's name is all that they share.

    Returns:
        Whether the model was changed.
    """
    if not any(_is_unbound(value) for graph in all_graphs(model) for value in graph.outputs):
        return False
    changed = _connect(model.graph, {})
    for function in model.functions.values():
        changed |= _connect(function.graph, {})
    return changed


def _is_unbound(value: ir.Value) -> bool:
    """Whether nothing computes the value and no graph takes it from outside."""
    is_given = value.is_graph_input() or value.is_initializer()
    return value.producer() is None and not is_given


def _connect(graph: ir.Graph, outer: Mapping[str | None, ir.Value]) -> bool:
    """Connect the outputs of the graphs in a graph, and its own to the values around it."""
    changed = False
    own = [*graph.inputs, *graph.initializers.values()]
    scope = {**outer, **{value.name: value for value in own}}
    for node in graph:
        for _, inner in subgraphs(node):
            changed |= _connect(inner, scope)
        own.extend(node.outputs)
        scope.update((value.name, value) for value in node.outputs)
    computed = set(own)
    for position, value in enumerate(graph.outputs):
        captured = None if value in computed else outer.get(value.name)
        if captured is None:
            continue
        node = ir.node("Identity", [captured])
        node.outputs[0].name, node.outputs[0].type = value.name, value.type
        node.outputs[0].shape = value.shape
        graph.append(node)
        graph.outputs[position] = node.outputs[0]
        changed = True
    return changed
