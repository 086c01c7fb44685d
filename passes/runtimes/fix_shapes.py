"""A model for inputs of certain shapes: what follows from them is a constant."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import onnx_ir as ir
from onnx_ir.passes import common as tidying

from passes.graph.graphs import is_operator
from passes.runtimes.old_forms import OldFormsPass

__all__ = ["FixShapesPass"]

# What is larger is no size of anything.
_LARGEST = 1 << 16
# Folding tells shapes to plain forms, whose constants can be folded again.
_ROUNDS = 2


class FixShapesPass(ir.passes.InPlacePass):
    """Write a model for inputs of certain shapes, with fewer and plainer operators.

    1. The inputs take the shapes; what the model declares of other values is forgotten.
    2. What follows from the shapes is a constant, an If that they decide is its branch.
    3. Operators take the forms of `passes.runtimes.old_forms.OldFormsPass`.

    Attributes:
        shapes: The shape of every input that is no initializer.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        self.shapes = shapes

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph."""
        for value in model.graph.inputs:
            if value.name is not None and value.name in self.shapes:
                value.shape = ir.Shape(self.shapes[value.name])
        for node in model.graph:
            for value in node.outputs:
                value.shape = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(_ROUNDS):
                _fold(model)
                OldFormsPass()(model)
        return ir.passes.PassResult(model, modified=True)


def _fold(model: ir.Model) -> None:
    from onnxscript import optimizer  # it takes long to import

    optimizer.fold_constants(
        model, onnx_shape_inference=True, output_size_limit=_LARGEST, should_fold=_is_folded
    )
    for node in model.graph:
        # onnx_ir's own pass for it gives two outputs of the model one name.
        if _is_copy(node) and not node.outputs[0].is_graph_output():
            assert node.inputs[0] is not None
            node.outputs[0].replace_all_uses_with(node.inputs[0])
    tidying.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    tidying.RemoveUnusedNodesPass()(model)


def _is_folded(node: ir.Node) -> bool | None:
    """Return True for what is folded in spite of its kind."""
    return True if node.op_type == "ConstantOfShape" else None


def _is_copy(node: ir.Node) -> bool:
    return is_operator(node, "Identity")
