"""Conditions of Loops that hold in every iteration, as onnxruntime is fastest with them."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import made_by, operand, skip_identities
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.runtimes.sidestep import OthersPass

__all__ = ["LoopConditionsPass"]


class LoopConditionsPass(OthersPass):
    """Let a body that goes on in every iteration yield the condition that it is handed.

    Exporters yield a constant. onnxruntime copies that in each iteration, which takes up to a
    fifth of a microsecond, and folds the nodes in front of it when it loads the model.
    """

    only_for = (("Loop",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the Loops of the main graph, subgraphs and functions."""
        loops = [node for node in self._others(model) if is_operator(node, "Loop")]
        endless = [node for node in loops if _goes_on(node)]
        for loop in endless:
            _hand_on(loop.attributes["body"].as_graph())
        if endless:
            make_names_unique(model)
        return ir.passes.PassResult(model, bool(endless))


def _goes_on(loop: ir.Node) -> bool:
    """Whether nothing but the number of iterations ends a Loop, and its body says so anew."""
    condition = loop.attributes["body"].as_graph().outputs[0]
    return _is_true(loop.inputs[1]) and _is_true(condition)


def _is_true(value: ir.Value | None) -> bool:
    """Whether a condition is left out, or a constant, or a Cast of one, that is true."""
    if value is None:
        return True
    cast = made_by(skip_identities(value), "Cast")
    known = constant_value(skip_identities(value if cast is None else operand(cast, 0)))
    return known is not None and bool(known.astype(bool).all())


def _hand_on(body: ir.Graph) -> None:
    """Let a body yield the condition that it is handed."""
    old = body.outputs[0]
    node = ir.node("Identity", [body.inputs[1]])
    (new,) = node.outputs
    new.name, new.type, new.shape = old.name, old.type, old.shape
    body.append(node)
    body.outputs[0] = new
    maker = old.producer()
    if maker is not None:
        remove_dead([maker])
