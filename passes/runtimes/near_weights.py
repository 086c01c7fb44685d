"""Weights and small constants in the graphs that read them, where onnxruntime gains by it."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import onnx_ir as ir

from passes.graph.builder import unnamed
from passes.graph.graphs import all_graphs, is_default_domain, subgraphs
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.runtimes.defects.own_weights import weights_of
from passes.runtimes.sidestep import OthersPass

__all__ = ["NearConstantsPass", "NearWeightsPass"]

_PACKED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger"), (1,)),
    **dict.fromkeys(("GRU", "LSTM"), (1, 2)),
}
"""The operators of whose weights onnxruntime keeps a packed copy, and where they read them."""
_MOST = 2**23
"""The most bytes that all copies take."""
_Owners = Mapping[ir.Graph | ir.Function | None, ir.Node]


class _NearPass(OthersPass):
    """Copy constants to their readers; a kind of pass says which are worth it."""

    _most = _MOST

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Copy what the main graph holds, and what graphs between do."""
        owners = _owners(model)
        copies: dict[tuple[ir.Graph, ir.Value], ir.Value] = {}
        left = _MOST
        for node in self._others(model):
            for at, value in enumerate(node.inputs):
                graph = node.graph
                if value is None or value.graph is graph or not isinstance(graph, ir.Graph):
                    continue
                tensor = weights_of(value) if self._is_far(node, at, value, owners) else None
                if tensor is None or tensor.nbytes > self._most:
                    continue
                copy = copies.get((graph, value))
                if copy is None:
                    left -= tensor.nbytes
                    if left < 0:
                        break
                    copy = copies[graph, value] = _copied(graph, value, tensor)
                node.replace_input_with(at, copy)
        makers = (value.producer() for _, value in copies)
        remove_dead([maker for maker in makers if maker is not None])
        if copies:
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(copies))

    @abc.abstractmethod
    def _is_far(self, node: ir.Node, at: int, value: ir.Value, owners: _Owners) -> bool:
        """Whether an input of a node, a value of a graph around, is better read as a copy."""


class NearWeightsPass(_NearPass):
    """Copy weights that are read from two graphs further out, or more, to their readers.

    onnxruntime packs weights for products when it loads a model. It looks for them in the graph of
    the reader and in the one around it, no further: an If around a Loop makes the products of the
    Loop up to twice as slow, and rounds them otherwise. Nodes that the model's author wrote, and
    that still stand where they stood, keep what they read.

    Source: ``SessionState::PrepackConstantInitializedTensors`` of onnxruntime.
    """

    only_for = (("If", "Loop", "Scan"),)

    def _is_far(self, node: ir.Node, at: int, value: ir.Value, owners: _Owners) -> bool:
        packed = _PACKED.get(node.op_type, ()) if is_default_domain(node) else ()
        owner = owners.get(node.graph)
        return at in packed and (owner is None or value.graph is not owner.graph)


class NearConstantsPass(_NearPass):
    """Copy small constants that nodes inside of a branch read from around the branch.

    onnxruntime hands a branch each value that it reads from outside, which takes up to a tenth of
    a microsecond: for a large Loop of no iterations in a branch that is as much as the If itself.
    """

    only_for = (("If",),)
    _most = 256  # bytes of a constant

    def _is_far(self, node: ir.Node, at: int, value: ir.Value, owners: _Owners) -> bool:
        owner = owners.get(node.graph)
        while owner is not None:
            if owner.op_type == "If":
                return True
            owner = owners.get(owner.graph)
        return False


def _owners(model: ir.Model) -> _Owners:
    """Return the node that each graph belongs to."""
    nodes = [node for graph in all_graphs(model) for node in graph]
    return {inner: node for node in nodes for _, inner in subgraphs(node)}


def _copied(graph: ir.Graph, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
    """Record a constant at the start of a graph."""
    node = ir.node("Constant", [], {"value": unnamed(tensor)})
    (copy,) = node.outputs
    copy.name, copy.type, copy.shape = value.name, value.type, value.shape
    first = next(iter(graph), None)
    assert first is not None
    graph.insert_before(first, node)
    return copy
