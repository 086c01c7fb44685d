"""Inlines the model-local functions that hold maps or sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from passes.errors import RewriteError
from passes.graphs import is_default_domain, walk_nodes
from passes.outer_outputs import connect_outer_outputs
from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = ["InlineMapFunctionsPass", "functions_holding", "inline_functions"]


class InlineMapFunctionsPass(ir.passes.InPlacePass):
    """Inline every function that holds a map or a sequence, itself or through its calls.

    1. Functions that hold none stay, and so do their calls.
    2. Attribute references in an inlined body become the values given at the call, or the
       function's defaults.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline in the main graph, in bodies, and in the functions that stay."""
        chosen = functions_holding(model, _is_of_sequences)
        if chosen:
            inline_functions(model, chosen)
        return ir.passes.PassResult(model, bool(chosen))


def inline_functions(model: ir.Model, chosen: Collection[ir.OperatorIdentifier]) -> None:
    """Inline functions in the main graph, in bodies, and in the functions that stay.

    Args:
        model: The model.
        chosen: Which functions.

    Raises:
        RewriteError: A call does not fit its function.
    """
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


def functions_holding(
    model: ir.Model, is_wanted: Callable[[ir.Node], bool]
) -> set[ir.OperatorIdentifier]:
    """Return the functions that hold a wanted node, themselves or through their calls."""
    calls: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {}
    chosen: set[ir.OperatorIdentifier] = set()
    for identifier, function in model.functions.items():
        calls[identifier] = set()
        for node in walk_nodes(function):
            calls[identifier].add(node.op_identifier())
            if is_wanted(node):
                chosen.add(identifier)
    while grown := {i for i, called in calls.items() if called & chosen} - chosen:
        chosen |= grown
    return chosen


def _is_of_sequences(node: ir.Node) -> bool:
    return is_default_domain(node) and node.op_type in SEQUENCE_OPERATORS
