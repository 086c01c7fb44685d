"""What all operators of the evaluator share: their errors, and the bodies of control flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from passes.errors import RewriteError
from rewriter.evaluator.run_watch import current_watch

__all__ = ["ControlFlow", "EvaluationError", "Operator", "Value"]

# An ndarray, a list of ndarrays for a sequence, or None for an absent optional.
Value = Any


class EvaluationError(RewriteError):
    """A model breaks the specification on the values that it was given."""


class Operator(OpRun):
    """An operator that may return an absent optional and whose errors name it."""

    def error(self, reason: str) -> EvaluationError:
        """Make an error that names this node by its name, or by what it computes."""
        name = self.onnx_node.name or next(filter(None, self.onnx_node.output), "")
        return EvaluationError(f"{self.onnx_node.op_type} {name!r}: {reason}")

    def sequence(self, value: Value) -> list[Value]:
        """Return the value if it is a sequence."""
        if not isinstance(value, list):
            raise self.error(f"a sequence is needed, not a {type(value).__name__}")
        return value

    def position(self, value: np.ndarray, first: int, last: int) -> int:
        """Return the position held by a tensor of one element, if it is in ``first..last``."""
        if last < first:
            raise self.error("the sequence is empty")
        position = self.integer(value, "the position")
        if not first <= position <= last:
            raise self.error(f"position {position} is outside of {first} to {last}")
        return position

    def integer(self, value: np.ndarray, what: str) -> int:
        """Return the integer in a tensor of one element."""
        value = np.asarray(value)
        if value.size != 1 or value.dtype.kind not in "iu":
            raise self.error(f"{what} is {value.dtype} of shape {value.shape}, not one integer")
        return int(value.item())

    def _check_and_fix_outputs(self, res: tuple[Value, ...]) -> tuple[Value, ...]:
        return res  # onnx's own refuses None


class ControlFlow(Operator):
    """An operator whose bodies may read values of the enclosing graphs.

    Attributes:
        iterates: Whether it runs its body once for each sample or step.
    """

    iterates = True

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)
        self._captured = {
            attribute.name: _captured_names(attribute.g)
            for attribute in onnx_node.attribute
            if attribute.type == onnx.AttributeProto.GRAPH
        }

    def need_context(self) -> bool:
        """Ask the evaluator for the values computed so far."""
        return True

    def functions(self) -> list[onnx.FunctionProto]:
        """Return the model-local functions that the bodies may call."""
        return list(self.run_params["existing_functions"].values())

    def captured(self, attribute: str, context: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of the enclosing graphs that the body of an attribute reads.

        Only those: a body may use a name of its own that an enclosing graph uses as well.
        """
        return {name: context[name] for name in self._captured[attribute] if name in context}

    def evaluate(
        self, body: Any, feeds: dict[str, Value], attributes: Any, bindings: Any
    ) -> list[Value]:
        """Run a body once; `attributes` and `bindings` are handed through."""
        if self.iterates and (watch := current_watch()):
            watch.ran.update(self.onnx_node.output[:1])
        # onnx declares no types for it.
        outputs: list[Value] = self._evaluate_subgraph(  # type: ignore[no-untyped-call]
            feeds, body, attributes, bindings
        )
        return outputs


def _captured_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a body, or a body in it, reads but does not define."""
    own = {value.name for value in graph.input}
    own |= {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    read = {value.name for value in graph.output}
    for node in graph.node:
        own |= set(node.output)
        read |= set(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                read |= _captured_names(attribute.g)
    return read - own - {""}
