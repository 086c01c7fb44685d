"""Reads PyTorch's unbind as PyTorch means it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import (
    all_nodes,
    constant_value,
    graphs_with_nodes,
    is_operator,
    name_of,
    node_paths,
    subgraphs,
)
from passes.typing import Typing, type_values

__all__ = ["PyTorchRanksPass", "PyTorchUnbindPass"]


class PyTorchUnbindPass(ir.passes.InPlacePass):
    """Leave out the split of a SplitToSequence by which PyTorch writes unbind.

    PyTorch's exporter writes ``unbind``, and ``torch.where(c)[0]`` with it, as SplitToSequence
    with a scalar split of 1 and ``keepdims = 0``. It means elements without the axis, which is
    what onnxruntime yields; the specification ignores ``keepdims`` beside a split. Without the
    split both say what PyTorch means.

    The exporter infers types with ONNX, which keeps the axis: the ranks that it declares behind
    an unbind are wrong. Those that do not follow from the nodes are left out, and those of the
    model's outputs until `PyTorchRanksPass` brings them back. A Gemm by which it therefore wrote
    the product of a vector gets the row that onnxruntime takes the vector for.

    It is for models that PyTorch's exporter wrote.

    Attributes:
        assumptions: What is taken for granted, one line for each node.
        declared: The declared shapes of the model's outputs, by their names.
    """

    def __init__(self) -> None:
        """Set up the pass."""
        super().__init__()
        self.assumptions: list[str] = []
        self.declared: dict[str, ir.Shape] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        self.assumptions, self.declared = [], {}
        found = [node for node in all_nodes(model) if _is_unbind(node)]
        if not found:
            return ir.passes.PassResult(model, False)
        paths = node_paths(model)
        for node in found:
            node.resize_inputs(1)
            self.assumptions.append(
                f"{paths[node]}: unbind as PyTorch and onnxruntime have it, without the axis, "
                "which the specification would keep"
            )
        self.declared = {name_of(v): v.shape for v in model.graph.outputs if v.shape is not None}
        typing = _forget_ranks(model)
        for node in list(all_nodes(model)):
            _take_for_a_row(node, typing)
        return ir.passes.PassResult(model, True)


def _is_unbind(node: ir.Node) -> bool:
    if not is_operator(node, "SplitToSequence") or len(node.inputs) != 2:
        return False
    split = constant_value(node.inputs[1])
    is_one = split is not None and split.ndim == 0 and split == 1
    return bool(is_one) and not node.attributes.get_int("keepdims", 1)


def _forget_ranks(model: ir.Model) -> Typing:
    """Leave out the declared shapes that do not follow from nodes; return the types that do."""
    declared = {value: value.shape for value in _declared(model)}
    for value in declared:
        value.shape = None
    typing = type_values(model, proven=True)
    of_model = set(model.graph.outputs)
    for value, shape in declared.items():
        if value not in of_model and shape is not None and typing.rank(value) == len(shape):
            value.shape = shape
    return typing


def _declared(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values whose types an exporter infers: results, and what loops carry."""
    for graph, nodes in graphs_with_nodes(model):
        yield from graph.outputs
        for node in nodes:
            yield from node.outputs
            for _, body in subgraphs(node):
                # A Loop gives its number and its condition the rank that the body declares.
                yield from body.inputs[2 if node.op_type == "Loop" else 0 :]


def _take_for_a_row(node: ir.Node, typing: Typing) -> None:
    """Let a Gemm read a vector as a matrix of one row, as onnxruntime does."""
    if not is_operator(node, "Gemm") or node.graph is None:
        return
    vector, is_turned = node.inputs[0], node.attributes.get_int("transA", 0)
    if vector is None or typing.rank(vector) != 1 or is_turned:
        return
    builder = Builder.at(node)
    row = builder.op("Reshape", [vector, builder.ints(1, -1)])
    node.graph.insert_before(node, builder.nodes)
    node.replace_input_with(0, row)


class PyTorchRanksPass(ir.passes.InPlacePass):
    """Leave out the declared shapes of outputs that have another rank.

    PyTorch's exporter infers the types of outputs with ONNX, which keeps the axis that its unbind
    takes away: the ranks behind it are wrong. Nothing is done where no unbind was found.

    Attributes:
        warnings: One line for each output.
    """

    def __init__(self, unbinding: PyTorchUnbindPass) -> None:
        """Set up the pass.

        Args:
            unbinding: The pass that found the unbinds.
        """
        super().__init__()
        self._unbinding = unbinding
        self.warnings: list[str] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Compare the declared ranks of the outputs with what follows from the nodes."""
        self.warnings = []
        outputs = {v.name: v for v in model.graph.outputs if v.name in self._unbinding.declared}
        if not outputs:
            return ir.passes.PassResult(model, False)
        typing = type_values(model, proven=True)
        for name, shape in self._unbinding.declared.items():
            value = outputs.get(name)
            if value is None or value.shape is not None:
                continue
            rank = typing.rank(value)
            if rank in (None, len(shape)):
                value.shape = shape
                continue
            self.warnings.append(
                f"output '{name}' is declared with rank {len(shape)} and has rank {rank}: "
                "its declared shape is left out"
            )
        return ir.passes.PassResult(model, True)
