"""Puts tensors into the place of what nodes read of sequences."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

import onnx_ir as ir

from passes.graph.builder import Builder, needed_nodes
from passes.graph.drafts import drafting
from passes.graph.graphs import all_graphs, default_opset, is_operator, node_paths
from passes.graph.node_copies import rank_alone
from passes.graph.opsets import to_opset_form
from passes.graph.splice import remove_dead
from passes.maps.sequence_source import MAKERS
from passes.sequences.reads import READERS, SequenceReader

__all__ = ["remove_unread", "replace_reads"]


def replace_reads(model: ir.Model, nodes: Iterable[ir.Node], reader: SequenceReader) -> bool:
    """Replace the reads of sequences about which enough is known, among some nodes."""
    with drafting() as draft:
        reads = _plan_reads(model, nodes, reader)
        _apply(reads, reader, default_opset(model), set(model.graph.outputs))
        draft.keep_placed()
    if not reads:
        return False
    remove_dead([read.node for read in reads])
    remove_unread(model)
    return True


@dataclasses.dataclass(frozen=True)
class _Read:
    """A read of a sequence, recorded anew: ``value`` stands for the output of ``node``."""

    node: ir.Node
    builder: Builder
    value: ir.Value


def _plan_reads(model: ir.Model, nodes: Iterable[ir.Node], reader: SequenceReader) -> list[_Read]:
    paths = node_paths(model)
    reads = []
    for node in nodes:
        if not is_operator(node, READERS):
            continue
        builder = Builder(paths[node])
        value = reader.read(builder, node)
        if value is not None:
            reads.append(_Read(node, builder, value))
    return reads


def _apply(
    reads: list[_Read], reader: SequenceReader, opset: int, declared: Collection[ir.Value]
) -> None:
    """Put recorded reads into their graphs.

    An element may itself be the output of a node that is replaced.

    Args:
        reads: The reads.
        reader: Has recorded what several of them share.
        opset: Version of ONNX's operators in the model.
        declared: The outputs of the main graph, whose dimensions stay as they are.
    """
    builders = [(read.node, read.builder) for read in reads]
    builders += reader.slices.builders().items()
    for _, builder in builders:
        to_opset_form(builder.nodes, opset)
    nodes = [node for _, builder in builders for node in builder.nodes]
    needed = needed_nodes(nodes, [read.value for read in reads])
    for node, builder in builders:
        assert node.graph is not None
        node.graph.insert_before(node, [one for one in builder.nodes if one in needed])
    instead = {read.node.outputs[0]: read.value for read in reads}
    for read in reads:
        value = read.value
        while value in instead:
            value = instead[value]
        _replace(read, value, declared)


def _replace(read: _Read, new: ir.Value, declared: Collection[ir.Value]) -> None:
    old, graph = read.node.outputs[0], read.node.graph
    assert graph is not None
    node = new.producer()
    is_new = node is not None and node in read.builder.nodes
    if old.is_graph_output() and (not is_new or new.is_graph_output()):
        copied = ir.Node("", "Identity", [new], name=f"{read.node.name}/Identity")
        graph.insert_before(read.node, copied)
        new, is_new = copied.outputs[0], True
    if is_new:
        new.name, old.name = old.name, None
        new.type, new.doc_string = old.type or new.type, old.doc_string
        new.metadata_props.update(old.metadata_props)
        if old.is_graph_output():
            new.shape = old.shape if old in declared else rank_alone(old.shape)
    old.replace_all_uses_with(new, replace_graph_outputs=True)


def remove_unread(model: ir.Model) -> bool:
    """Remove what makes or reads sequences and is not read itself."""
    before = {graph: len(graph) for graph in all_graphs(model)}
    found = [node for graph in before for node in graph if is_operator(node, MAKERS | READERS)]
    remove_dead(reversed(found))
    return any(len(graph) != count for graph, count in before.items())
