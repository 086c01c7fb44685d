"""Sequences that an If or a Loop yields become the tensors that they hold."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.drafts import drafting
from passes.graph.graphs import all_graphs, is_default_domain
from passes.graph.if_outputs import branches_of
from passes.graph.opsets import to_opset_form
from passes.graph.splice import hand_over
from passes.sequences.carried import rewrite_loop
from passes.sequences.known import KnownSequences
from passes.sequences.parts import Element, Parts, Piece, Sliced
from passes.sequences.sliced_reads import SlicedReader
from passes.typing.value_types import Typing

__all__ = ["is_read_for_tensors", "yield_tensors"]

_BRANCHES = ("then_branch", "else_branch")


def yield_tensors(
    model: ir.Model, typing: Typing, known: KnownSequences, opset: int, *, required: bool
) -> bool:
    """Let control flow yield tensors where it yields a sequence that is known well enough.

    One node is changed: what is known of others may hang on it. The sequence is made anew
    outside of the node, for whatever still reads it as one.

    Args:
        model: The model.
        typing: A proven typing.
        known: What is known of its sequences.
        opset: Version of ONNX's operators.
        required: Whether no sequence may be left, at any cost.

    Returns:
        Whether a node was changed.
    """
    for graph in reversed(list(all_graphs(model))):
        for node in graph:
            if not is_default_domain(node):
                continue
            if node.op_type == "If" and _rewrite_if(node, typing, known, opset, model.graph):
                return True
            if node.op_type == "Loop" and rewrite_loop(node, typing, known, required=required):
                return True
    return False


def is_read_for_tensors(value: ir.Value, main: ir.Graph) -> bool:
    """Whether tensors in the place of a result of an If may serve its readers.

    What the model yields stays a sequence; a graph around the If may yield tensors in turn.
    """
    node = value.producer()
    is_inside = node is not None and node.graph is not main
    return bool(value.uses()) or (is_inside and value.is_graph_output())


def _rewrite_if(
    node: ir.Node, typing: Typing, known: KnownSequences, opset: int, main: ir.Graph
) -> bool:
    if any(name not in node.attributes for name in _BRANCHES):
        return False
    branches = branches_of(node)
    for k, value in enumerate(node.outputs):
        if not is_read_for_tensors(value, main):
            continue
        held = _held_alike([known[branch.outputs[k]] for branch in branches])
        if held is None:
            continue
        reader = SlicedReader(typing, opset)
        with drafting() as draft:
            builders = [Builder.at(node) for _ in branches]
            written = [
                [_write(builder, element, reader) for element in elements]
                for builder, elements in zip(builders, held, strict=True)
            ]
            if any(value is None for values in written for value in values):
                continue
            for at, builder in reader.builders().items():
                to_opset_form(builder.nodes, opset)
                assert at.graph is not None
                at.graph.insert_before(at, builder.nodes)
            for branch, builder, values in zip(branches, builders, written, strict=True):
                to_opset_form(builder.nodes, opset)
                branch.extend(builder.nodes)
                _put_outputs(branch, k, [v for v in values if v is not None])
            _rebuild(node, k, held[0], typing)
            draft.keep_placed()
        return True
    return False


def _held_alike(held: Sequence[Parts | None]) -> list[tuple[Element | Sliced, ...]] | None:
    """Return what two sequences hold if it is alike: as many elements, or slices cut alike."""
    known = [parts for parts in held if parts is not None]
    if len(known) < len(held):
        return None
    listed = [elements for parts in known if (elements := parts.elements()) is not None]
    if len(listed) == len(held) and len({len(elements) for elements in listed}) == 1:
        return list(listed)
    cuts = set()
    for parts in known:
        if len(parts.parts) != 1 or not isinstance(parts.parts[0], Sliced):
            return None
        source = parts.parts[0].source
        if source.split is not None:
            return None
        cuts.add((source.axis, source.keepdims))
    return [parts.parts for parts in known] if len(cuts) == 1 else None


def _write(builder: Builder, element: Element | Sliced, reader: SlicedReader) -> ir.Value | None:
    if isinstance(element, Sliced):
        return element.source.tensor
    return reader.piece(builder, element) if isinstance(element, Piece) else element


def _put_outputs(branch: ir.Graph, k: int, values: Sequence[ir.Value]) -> None:
    """Let a branch yield tensors in the place of a sequence."""
    branch.outputs.pop(k)
    for i, value in enumerate(values):
        producer = value.producer()
        if producer is None or producer.graph is not branch or value.is_graph_output():
            copied = ir.Node("", "Identity", [value], name=f"{value.name}/Identity")
            copied.outputs[0].type = value.type
            branch.append(copied)
            value = copied.outputs[0]
        branch.outputs.insert(k + i, value)


def _rebuild(node: ir.Node, k: int, held: Sequence[Element | Sliced], typing: Typing) -> None:
    """Replace an If whose branches were changed, and make its sequence outside of it."""
    graph, old = node.graph, node.outputs
    assert graph is not None
    dtype = typing.dtype(old[k])
    builder = Builder.at(node)
    tensors: Sequence[ir.Value] = ()
    outputs: list[ir.Value] = []
    if len(old) - 1 + len(held):
        attributes = dict(node.attributes)
        for name in _BRANCHES:
            node.attributes.pop(name)
        new = builder.node("If", node.inputs, attributes, outputs=len(old) - 1 + len(held))
        new.name, new.doc_string = node.name, node.doc_string
        new.metadata_props.update(node.metadata_props)
        new.meta.update(node.meta)
        outputs = list(new.outputs)
        tensors = outputs[k : k + len(held)]
    for tensor in tensors:
        tensor.type = None if dtype is None else ir.TensorType(dtype)
    if not held:
        sequence = builder.op(
            "SequenceEmpty", [], {"dtype": None if dtype is None else int(dtype)}
        )
    elif isinstance(held[0], Sliced):
        source = held[0].source
        attributes_of_cut = {"axis": source.axis, "keepdims": int(source.keepdims)}
        sequence = builder.op("SplitToSequence", tensors, attributes_of_cut)
    else:
        sequence = builder.op("SequenceConstruct", tensors)
    graph.insert_before(node, builder.nodes)
    outputs[k : k + len(held)] = [sequence]
    for before, after in zip(old, outputs, strict=True):
        hand_over(before, after)
    graph.remove(node, safe=True)
