"""Reads a SequenceMap, and the split before and concatenation after it, into a map site."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graphs import all_graphs, constant_value, is_default_domain
from passes.site import ElementSource, IndexSource, MapSite, Result, SequenceSource, TensorSource
from passes.typing import Typing

__all__ = [
    "CONTRADICTED",
    "DISPUTED",
    "find_sequence_maps",
    "is_contradicted",
    "is_disputed",
    "read_sequence_map",
    "results_of",
    "rows_of",
    "sequence_source",
]


def is_sequence_map(node: ir.Node) -> bool:
    """Whether the node is a SequenceMap of ONNX."""
    return node.op_type == "SequenceMap" and is_default_domain(node)


def find_sequence_maps(model: ir.Model) -> list[tuple[ir.Graph, ir.Node]]:
    """Return every SequenceMap with its graph; a map inside the body of another comes first."""
    graphs = list(all_graphs(model))
    return [(g, n) for g in reversed(graphs) for n in g if is_sequence_map(n)]


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
            else [Result(position, "sequence", value)]
        )
    ]
    return MapSite(node, graph, path, elements, shared, body, results)


def sequence_source(sequence: ir.Value, typing: Typing) -> SequenceSource | TensorSource:
    """Return the tensor that SplitToSequence cuts into a sequence, or the sequence itself.

    Identity in between is passed over.
    """
    sequence = _before_identities(sequence)
    node = _split_node(sequence)
    source = None if node is None or is_disputed(sequence, typing) else _split_source(node, typing)
    return source or SequenceSource(sequence)


def rows_of(source: ElementSource, typing: Typing) -> ElementSource:
    """Return a source as it is now: a sequence that was cut from a tensor is read as its rows."""
    match source:
        case SequenceSource():
            return sequence_source(source.sequence, typing)
        case IndexSource() if isinstance(source.like, SequenceSource):
            return dataclasses.replace(source, like=sequence_source(source.like.sequence, typing))
    return source


DISPUTED = (
    "onnxruntime takes away the axis that is cut where ONNX keeps it, by a SplitToSequence with a "
    "scalar split and keepdims = 0: leave out the split for elements without the axis, or set "
    "keepdims to 1 for elements with it"
)
"""Why the elements of some sequences count as of unknown rank."""


def is_disputed(sequence: ir.Value, typing: Typing) -> bool:
    """Whether ONNX and onnxruntime differ on the rank of the elements of a sequence.

    ONNX ignores ``keepdims`` where sizes are given, and onnxruntime where these are a vector; it
    fails where they are a scalar other than 1.
    """
    node = _split_node(_before_identities(sequence))
    if node is None or len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    is_cut_away = not node.attributes.get_int("keepdims", 1)
    size = constant_value(node.inputs[1])
    may_be_one = size is None or bool((size == 1).all())
    return is_cut_away and may_be_one and typing.rank(node.inputs[1]) != 1


CONTRADICTED = "the body declares other dimensions of its elements than their sequence has"


def is_contradicted(element: ir.Value, sequence: ir.Value, typing: Typing) -> bool:
    """Whether a body declares other dimensions of its elements than their sequence has.

    A guard asks for those that the body declares, and onnxruntime folds by those of the sequence.
    """
    own, around = typing.dims(element), typing.dims(sequence)
    if own is None or around is None:
        return False
    pairs = zip(own, around, strict=False)
    differ = (isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
    return len(own) != len(around) or any(differ)


def _before_identities(sequence: ir.Value) -> ir.Value:
    node = sequence.producer()
    while node is not None and node.op_type == "Identity" and is_default_domain(node):
        if node.inputs[0] is None:
            break
        sequence = node.inputs[0]
        node = sequence.producer()
    return sequence


def _split_node(sequence: ir.Value) -> ir.Node | None:
    node = sequence.producer()
    is_split = node is not None and is_default_domain(node) and node.op_type == "SplitToSequence"
    return node if is_split else None


def _split_source(node: ir.Node, typing: Typing) -> TensorSource | None:
    tensor = node.inputs[0]
    split = node.inputs[1] if len(node.inputs) > 1 else None
    axis = node.attributes.get_int("axis", 0)
    keepdims = node.attributes.get_int("keepdims", 1)
    if tensor is None or axis is None:
        return None
    if split is None:
        return TensorSource(tensor, axis, bool(keepdims))
    rank = typing.rank(split)
    if rank is None:
        return None
    if rank == 0 and constant_value(split) == 1:
        return TensorSource(tensor, axis, True)
    return TensorSource(tensor, axis, True, split, rank == 0)


def results_of(output: int, value: ir.Value, graph: ir.Graph) -> Iterator[Result]:
    """Yield how an output of a map is used: by concatenations, and as a sequence otherwise."""
    escapes = value.is_graph_output()
    for user, _ in value.uses():
        if (
            user.op_type == "ConcatFromSequence"
            and is_default_domain(user)
            and user.graph is graph
        ):
            is_new = bool(user.attributes.get_int("new_axis", 0))
            axis = user.attributes.get_int("axis", 0) or 0
            yield Result(output, "stacked" if is_new else "concatenated", user.outputs[0], axis)
        else:
            escapes = True
    if escapes:
        yield Result(output, "sequence", value)
