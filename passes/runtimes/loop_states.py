"""Takes declared numbers that may be false off the tensors that Loops carry."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from passes.graph.graphs import all_nodes, is_operator
from passes.runtimes.sidestep import OthersPass
from passes.typing import Typing

__all__ = ["LoopStatesPass"]


class LoopStatesPass(OthersPass):
    """Leave out the declared dimensions of what a Loop carries where they may be false.

    Exporters declare for a state the shape that it begins with. In the model as given nothing
    may follow from it, since inference gave up in front of it; behind nodes that were rewritten
    onnxruntime infers more, takes such a number for the size of a result, and fails where the
    state has grown. The rank stays. A model in which no node was written or moved stays as it is.
    """

    only_for = (("Loop",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the Loops of the main graph, subgraphs and functions."""
        states = list(_states_of_known_size(model))
        if not states or not self._others(model):
            return ir.passes.PassResult(model, False)
        typing = self._typing(model)
        modified = False
        for state in states:
            modified |= _loosen(state, typing)
        return ir.passes.PassResult(model, modified)


def _states_of_known_size(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the carried tensors of Loops for which a body declares a number."""
    for node in all_nodes(model):
        if not is_operator(node, "Loop"):
            continue
        for state in node.attributes["body"].as_graph().inputs[2:]:
            is_tensor = isinstance(state.type, ir.TensorType)
            if is_tensor and any(isinstance(dim, int) for dim in state.shape or ()):
                yield state


def _loosen(state: ir.Value, typing: Typing) -> bool:
    """Leave out the numbers that are not proven; return whether there were any."""
    assert state.shape is not None
    proven = typing.dims(state)
    if proven is None or len(proven) != len(state.shape):
        proven = (None,) * len(state.shape)
    dims = [
        None if isinstance(declared, int) and declared != known else declared
        for declared, known in zip(state.shape, proven, strict=True)
    ]
    modified = dims != list(state.shape)
    state.shape = ir.Shape(dims)
    return modified
