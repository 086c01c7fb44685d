"""Brings a model into the state in which its SequenceMaps can be read, and reads them.

A map site holds the split before a map and the concatenation behind it, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from passes.batching import rules, table
from passes.batching.opening import open_functions
from passes.errors import RewriteError
from passes.graph.graphs import (
    default_opset,
    graphs_with_nodes,
    is_operator,
    subgraphs,
    walk_nodes,
)
from passes.graph.names import make_names_unique
from passes.inline import InlineMapFunctionsPass
from passes.maps.element_source import ElementSource
from passes.maps.sequence_source import SequenceSource, sequence_source
from passes.site import MapResult, MapSite
from passes.typing import Typing

__all__ = [
    "find_sequence_maps",
    "is_sequence_map",
    "move_initializers",
    "prepare",
    "read_moved",
    "read_sequence_map",
    "results_of",
]

assert rules


def is_sequence_map(node: ir.Node) -> bool:
    """Whether the node is a SequenceMap of ONNX."""
    return is_operator(node, "SequenceMap")


def find_sequence_maps(model: ir.Model) -> list[tuple[ir.Graph, ir.Node]]:
    """Return every SequenceMap with its graph; a map inside the body of another comes first."""
    graphs = list(graphs_with_nodes(model))
    return [(g, n) for g, nodes in reversed(graphs) for n in nodes if is_sequence_map(n)]


def read_sequence_map(
    node: ir.Node, graph: ir.Graph, path: str, typing: Typing, *, with_boundaries: bool = True
) -> MapSite:
    """Read a SequenceMap.

    Args:
        node: The SequenceMap.
        graph: The graph that it stands in.
        path: Its path, for messages.
        typing: Tells sequences from tensors.
        with_boundaries: Read a SplitToSequence before it and a ConcatFromSequence after it as
            part of the map.

    Raises:
        RewriteError: The node breaks the specification of SequenceMap.
    """
    _check_node(node, path, typing)
    body = node.attributes["body"].as_graph()
    elements: list[tuple[ir.Value, ElementSource]] = []
    shared: list[tuple[ir.Value, ir.Value]] = []
    for position, (inner, outer) in enumerate(zip(body.inputs, node.inputs, strict=True)):
        value = _given(outer, position, path)
        if not _is_mapped(value, position, path, typing):
            shared.append((inner, value))
        elif with_boundaries:
            elements.append((inner, sequence_source(value, typing)))
        else:
            elements.append((inner, SequenceSource(value)))
    results: list[MapResult] = []
    for position, value in enumerate(node.outputs):
        alone = [MapResult(position, "sequence", value)]
        results += results_of(position, value, graph) if with_boundaries else alone
    return MapSite(node, graph, path, elements, shared, body, results)


def _check_node(node: ir.Node, path: str, typing: Typing) -> None:
    """Check that a SequenceMap has a body, what its body reads and yields, and a sequence first.

    Raises:
        RewriteError: It has not.
    """
    if "body" not in node.attributes or not node.inputs or node.inputs[0] is None:
        raise RewriteError(
            f"SequenceMap '{path}' lacks its body or its first input: the model is not valid; "
            "check how it was made."
        )
    body = node.attributes["body"].as_graph()
    if len(body.inputs) != len(node.inputs) or len(body.outputs) != len(node.outputs):
        raise RewriteError(
            f"SequenceMap '{path}' has {len(node.inputs)} inputs and {len(node.outputs)} outputs, "
            f"but its body has {len(body.inputs)} and {len(body.outputs)}: make them match."
        )
    if typing.is_sequence(node.inputs[0]) is False:
        raise RewriteError(
            f"SequenceMap '{path}' maps over '{node.inputs[0].name}', which is a tensor: its "
            "first input must be a sequence; cut the tensor with SplitToSequence."
        )


def _given(value: ir.Value | None, position: int, path: str) -> ir.Value:
    """Return an input that a SequenceMap must have.

    Raises:
        RewriteError: It is left out.
    """
    if value is None:
        raise RewriteError(
            f"SequenceMap '{path}' leaves out input {position}, which its body reads: give it."
        )
    return value


def _is_mapped(value: ir.Value, position: int, path: str, typing: Typing) -> bool:
    """Whether an input is a sequence, so that each sample reads its own element.

    Raises:
        RewriteError: Nothing tells it.
    """
    is_sequence = True if position == 0 else typing.is_sequence(value)
    if is_sequence is None:
        raise RewriteError(
            f"SequenceMap '{path}' reads '{value.name}', and nothing says whether that is a "
            "sequence or a tensor: declare its type in the model (value_info)."
        )
    return is_sequence


def results_of(output: int, value: ir.Value, graph: ir.Graph) -> Iterator[MapResult]:
    """Yield how an output of a map is used: by concatenations, and as a sequence otherwise."""
    escapes = value.is_graph_output()
    for user, _ in value.uses():
        if is_operator(user, "ConcatFromSequence") and user.graph is graph:
            is_new = bool(user.attributes.get_int("new_axis", 0))
            axis = user.attributes.get_int("axis", 0)
            yield MapResult(output, "stacked" if is_new else "concatenated", user.outputs[0], axis)
        else:
            escapes = True
    if escapes:
        yield MapResult(output, "sequence", value)


def prepare(model: ir.Model, *, opens: bool = False) -> bool:
    """Inline the functions that hide maps and move the initializers of bodies outside.

    An initializer of a body is one value for all samples. In the main graph it can be read by
    whatever the map becomes, and a body can be copied without copying weights.

    Args:
        model: The model.
        opens: Open the functions in bodies that have no batching rule, too.

    Returns:
        Whether the model was changed.
    """
    changed = bool(model.functions) and InlineMapFunctionsPass()(model).modified
    maps = [node for node in walk_nodes(model.graph) if is_sequence_map(node)]
    if not maps:
        return changed
    bodies = [body for node in maps for _, body in subgraphs(node)]
    if opens and _lack_rules(bodies, default_opset(model)):
        changed |= open_functions(model, bodies)
    changed |= make_names_unique(model)
    for body in bodies:
        changed |= move_initializers(body, model.graph)
    return changed


def _lack_rules(bodies: Iterable[ir.Graph], opset: int) -> bool:
    """Whether a node of some bodies has no batching rule."""
    nodes = (node for body in bodies for node in walk_nodes(body))
    return any(table.find(node, opset) is None for node in nodes)


def move_initializers(graph: ir.Graph, target: ir.Graph) -> bool:
    """Move the initializers of a graph and of the graphs inside it; return whether any were.

    What a copy of the graph has had before is read there.
    """
    moved = list(graph.initializers.values())
    for value in moved:
        assert value.name is not None
        _let_go(graph, value)
        del graph.initializers[value.name]
        known = target.initializers.get(value.name)
        if known is None:
            target.register_initializer(value)
        elif known.const_value is value.const_value:
            value.replace_all_uses_with(known)
        else:
            value.name = _free_name(target, value.name)
            target.register_initializer(value)
    inner = [move_initializers(g, target) for node in graph for _, g in subgraphs(node)]
    return any(inner) or bool(moved)


def _free_name(graph: ir.Graph, name: str) -> str:
    """Return a name that no initializer of a graph has."""
    return next(n for i in itertools.count(1) if (n := f"{name}_{i}") not in graph.initializers)


def read_moved(nodes: Iterable[ir.Node], target: ir.Graph) -> None:
    """Let nodes that were copied out of a graph read its initializers where they lie now.

    A copy of a graph has copies of its initializers, of the same name and the same tensor.

    Args:
        nodes: Nodes that may read such copies.
        target: Where the initializers were moved.
    """
    for node in walk_nodes(nodes):
        for position, value in enumerate(node.inputs):
            if value is None or not value.is_initializer() or value.name is None:
                continue
            moved = target.initializers.get(value.name)
            if moved is not None and moved.const_value is value.const_value:
                node.replace_input_with(position, moved)


def _let_go(graph: ir.Graph, value: ir.Value) -> None:
    """Let a graph that returns one of its initializers return a copy."""
    for position, output in enumerate(graph.outputs):
        if output is value:
            node = ir.node("Identity", [value])
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[position] = node.outputs[0]
