"""Reads PyTorch's unbind as PyTorch means it."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import all_nodes, constant_value, is_default_domain, node_paths
from passes.typing import type_values

__all__ = ["PyTorchRanksPass", "PyTorchUnbindPass"]


class PyTorchUnbindPass(ir.passes.InPlacePass):
    """Leave out the split of a SplitToSequence by which PyTorch writes unbind.

    PyTorch's exporter writes ``unbind``, and ``torch.where(c)[0]`` with it, as SplitToSequence
    with a scalar split of 1 and ``keepdims = 0``. It means elements without the axis, which is
    what onnxruntime yields; the specification ignores ``keepdims`` beside a split. Without the
    split both say what PyTorch means.

    Attributes:
        assumptions: What is taken for granted, one line for each node.
    """

    def __init__(self) -> None:
        """Set up the pass."""
        super().__init__()
        self.assumptions: list[str] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        self.assumptions = []
        if (model.producer_name or "").lower() != "pytorch":
            return ir.passes.PassResult(model, False)
        found = [node for node in all_nodes(model) if _is_unbind(node)]
        paths = node_paths(model) if found else {}
        for node in found:
            node.resize_inputs(1)
            self.assumptions.append(
                f"{paths[node]}: unbind as PyTorch and onnxruntime have it, without the axis, "
                "which the specification would keep"
            )
        return ir.passes.PassResult(model, bool(found))


def _is_unbind(node: ir.Node) -> bool:
    if node.op_type != "SplitToSequence" or not is_default_domain(node) or len(node.inputs) != 2:
        return False
    split = constant_value(node.inputs[1])
    is_one = split is not None and split.ndim == 0 and split == 1
    return bool(is_one) and not node.attributes.get_int("keepdims", 1)


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
        if not self._unbinding.assumptions:
            return ir.passes.PassResult(model, False)
        outputs = [value for value in model.graph.outputs if value.shape is not None]
        declared = [value.shape for value in outputs]
        for value in outputs:
            value.shape = None
        typing = type_values(model, proven=True, ranks=False)
        for value, shape in zip(outputs, declared, strict=True):
            rank = typing.rank(value)
            if shape is None or rank in (None, len(shape)):
                value.shape = shape
                continue
            self.warnings.append(
                f"output '{value.name}' is declared with rank {len(shape)} and has rank {rank}: "
                "its declared shape is left out"
            )
        return ir.passes.PassResult(model, bool(self.warnings))
