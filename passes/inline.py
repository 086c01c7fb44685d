"""Inlines the model-local functions that hold maps or sequences."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from passes.errors import RewriteError
from passes.graphs import is_default_domain, walk_nodes
from passes.outer_outputs import connect_outer_outputs
from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = ["InlineMapFunctionsPass"]


class InlineMapFunctionsPass(ir.passes.InPlacePass):
    """Inline every function that holds a map or a sequence, itself or through its calls.

    1. Functions that hold none stay, and so do their calls.
    2. Attribute references in an inlined body become the values given at the call, or the
       function's defaults.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline in the main graph, in bodies, and in the functions that stay."""
        chosen = _functions_with_sequences(model)
        if not chosen:
            return ir.passes.PassResult(model, False)
        connect_outer_outputs(model)
        inliner = InlinePass(criteria=lambda function: function.identifier() in chosen)
        try:
            inliner(model)
        except (ValueError, ir.passes.PassError) as error:
            cause = error.__cause__ or error
            raise RewriteError(
                f"The model-local functions that hold maps cannot be inlined: {cause}. Make the "
                "functions and the model agree, or inline them where the model is made."
            ) from error
        return ir.passes.PassResult(model, True)


def _functions_with_sequences(model: ir.Model) -> set[ir.OperatorIdentifier]:
    calls: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {}
    chosen: set[ir.OperatorIdentifier] = set()
    for identifier, function in model.functions.items():
        calls[identifier] = set()
        for node in walk_nodes(function):
            calls[identifier].add(node.op_identifier())
            if is_default_domain(node) and node.op_type in SEQUENCE_OPERATORS:
                chosen.add(identifier)
    while grown := {i for i, called in calls.items() if called & chosen} - chosen:
        chosen |= grown
    return chosen
