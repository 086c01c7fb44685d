"""Weights where onnxruntime packs them for its products: at most one graph around their reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from passes.graph.builder import unnamed
from passes.graph.graphs import all_graphs, is_default_domain, subgraphs
from passes.graph.names import make_names_unique
from passes.runtimes.defects.own_weights import weights_of
from passes.runtimes.sidestep import OthersPass

__all__ = ["NearWeightsPass"]

_PACKED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger"), (1,)),
    **dict.fromkeys(("GRU", "LSTM"), (1, 2)),
}
"""The operators of whose weights onnxruntime keeps a packed copy, and where they read them."""
_MOST = 2**23
"""The most bytes that all copies take."""


class NearWeightsPass(OthersPass):
    """Copy weights that are read from two graphs further out, or more, to their readers.

    onnxruntime packs weights for products when it loads a model. It looks for them in the graph of
    the reader and in the one around it, no further: an If around a Loop makes the products of the
    Loop up to twice as slow, and rounds them otherwise. Nodes that the model's author wrote, and
    that still stand where they stood, keep what they read.

    Source: ``SessionState::PrepackConstantInitializedTensors`` of onnxruntime.
    """

    only_for = (("If", "Loop", "Scan"),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Copy the weights that the main graph holds, and those of graphs between."""
        around = _graphs_around(model)
        copies: dict[tuple[ir.Graph, ir.Value], ir.Value] = {}
        left = _MOST
        for node, at, weights in _far_reads(self._others(model), around):
            tensor, graph = weights_of(weights), node.graph
            if tensor is None or not isinstance(graph, ir.Graph):
                continue
            copy = copies.get((graph, weights))
            if copy is None:
                left -= tensor.nbytes
                if left < 0:
                    break
                copy = copies[graph, weights] = _copied(graph, weights, tensor)
            node.replace_input_with(at, copy)
        if copies:
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(copies))


def _graphs_around(model: ir.Model) -> dict[ir.Graph, ir.Graph]:
    """Return the graph around each graph that belongs to a node."""
    return {
        inner: graph
        for graph in all_graphs(model)
        if isinstance(graph, ir.Graph)
        for node in graph
        for _, inner in subgraphs(node)
    }


def _far_reads(
    nodes: Sequence[ir.Node], around: dict[ir.Graph, ir.Graph]
) -> Iterator[tuple[ir.Node, int, ir.Value]]:
    """Yield what reads weights from too far out, at which input, and the weights."""
    for node in nodes:
        places = _PACKED.get(node.op_type, ()) if is_default_domain(node) else ()
        for at in places:
            value = node.inputs[at] if at < len(node.inputs) else None
            if value is None:
                continue
            assert node.graph is not None
            outer = around.get(node.graph)
            if value.graph not in (node.graph, outer):
                yield node, at, value


def _copied(graph: ir.Graph, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
    """Record a constant at the start of a graph."""
    node = ir.node("Constant", [], {"value": unnamed(tensor)})
    (copy,) = node.outputs
    copy.name, copy.type, copy.shape = value.name, value.type, value.shape
    first = next(iter(graph), None)
    assert first is not None
    graph.insert_before(first, node)
    return copy
