"""Reads a SequenceMap, and the split before and concatenation after it, into a map site."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.graphs import graphs_with_nodes, is_operator
from passes.maps.element_source import ElementSource
from passes.maps.sequence_source import SequenceSource, sequence_source
from passes.site import MapResult, MapSite
from passes.typing import Typing

__all__ = ["find_sequence_maps", "is_sequence_map", "read_sequence_map", "results_of"]


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
    elements: list[tuple[ir.Value, ElementSource]] = []
    shared: list[tuple[ir.Value, ir.Value]] = []
    for position, (inner, outer) in enumerate(zip(body.inputs, node.inputs, strict=True)):
        if outer is None:
            raise RewriteError(
                f"SequenceMap '{path}' leaves out input {position}, which its body reads: give it."
            )
        kind = True if position == 0 else typing.is_sequence(outer)
        if kind is None:
            raise RewriteError(
                f"SequenceMap '{path}' reads '{outer.name}', of which nothing tells whether it is "
                "a sequence or a tensor: declare its type in the model (value_info)."
            )
        if kind:
            source = sequence_source(outer, typing) if with_boundaries else SequenceSource(outer)
            elements.append((inner, source))
        else:
            shared.append((inner, outer))
    results = [
        result
        for position, value in enumerate(node.outputs)
        for result in (
            results_of(position, value, graph)
            if with_boundaries
            else [MapResult(position, "sequence", value)]
        )
    ]
    return MapSite(node, graph, path, elements, shared, body, results)


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
