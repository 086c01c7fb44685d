"""Sequence operators, Optional and If for the evaluator, by the words of the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from passes.errors import RewriteError

__all__ = [
    "SEQUENCE_OPERATORS",
    "ControlFlow",
    "EvaluationError",
    "Operator",
    "bind_attributes",
    "captured_names",
]

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
    """An operator whose bodies may read values of the enclosing graphs."""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)
        self._captured = {
            attribute.name: captured_names(attribute.g)
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
        outputs: list[Value] = self._evaluate_subgraph(feeds, body, attributes, bindings)
        return outputs


def captured_names(graph: onnx.GraphProto) -> set[str]:
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
                read |= captured_names(attribute.g)
    return read - own - {""}


def bind_attributes(
    nodes: Sequence[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto]
) -> None:
    """Put the attributes of a call in place of the references to them, in bodies too.

    Args:
        nodes: The nodes of a function; they are changed.
        given: The attributes; a reference to one that is not given is dropped, so that the
            operator's own default holds.
    """
    for node in nodes:
        for attribute in list(node.attribute):
            if attribute.ref_attr_name:
                name, source = attribute.name, given.get(attribute.ref_attr_name)
                if source is None:
                    node.attribute.remove(attribute)
                else:
                    attribute.CopyFrom(source)
                    attribute.name = name
            elif attribute.type == onnx.AttributeProto.GRAPH:
                bind_attributes(attribute.g.node, given)


class SequenceMap(ControlFlow):
    """The body once for each tensor of the first sequence; of nothing comes nothing."""

    def _run(
        self,
        first: Value,
        *others: Value,
        body: Any,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        samples = len(self.sequence(first))
        names = body.input_names
        if len(names) != 1 + len(others):
            raise self.error(f"the body has {len(names)} inputs, the map {1 + len(others)}")
        for k, other in enumerate(others, 1):
            if isinstance(other, list) and len(other) < samples:
                raise self.error(
                    f"input {k} holds {len(other)} tensors, the first input {samples}"
                )
        results: list[list[Value]] = [[] for _ in body.output_names]
        feeds = self.captured("body", context)
        for i in range(samples):
            mine = [value[i] if isinstance(value, list) else value for value in (first, *others)]
            feeds.update(zip(names, mine, strict=True))
            outputs = self.evaluate(body, feeds, attributes, bindings)
            for name, result, value in zip(body.output_names, results, outputs, strict=True):
                if not isinstance(value, np.ndarray):
                    raise self.error(f"the body's output {name!r} is not a tensor")
                result.append(value)
        return tuple(results)


class SequenceAt(Operator):
    """A tensor by its position, ``-n`` to ``n - 1``."""

    def _run(self, sequence: Value, position: np.ndarray) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        return (sequence[self.position(position, -n, n - 1)],)


class SequenceInsert(Operator):
    """A tensor more, at position ``-n`` to ``n``; at the back without one."""

    def _run(
        self, sequence: Value, tensor: Value, position: np.ndarray | None = None
    ) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        where = n if position is None else self.position(position, -n, n)
        result = list(sequence)
        result.insert(where, tensor)
        return (result,)


class SequenceErase(Operator):
    """A tensor less, the one at position ``-n`` to ``n - 1``; the last without one."""

    def _run(self, sequence: Value, position: np.ndarray | None = None) -> tuple[Value, ...]:
        n = len(self.sequence(sequence))
        if not n:
            raise self.error("the sequence is empty")
        result = list(sequence)
        del result[-1 if position is None else self.position(position, -n, n - 1)]
        return (result,)


class ConcatFromSequence(Operator):
    """The tensors of a sequence joined along an axis they have, or along a new one."""

    def _run(self, sequence: Value, axis: int, new_axis: int = 0) -> tuple[Value, ...]:
        if not self.sequence(sequence):
            raise self.error("the sequence is empty, so the result has no shape")
        join = np.stack if new_axis else np.concatenate
        try:
            return (join(sequence, axis=axis),)
        except ValueError as error:  # numpy's AxisError is one, too
            raise self.error(str(error)) from error


class SplitToSequence(Operator):
    """A tensor cut along an axis, into ones, into chunks of one size, or by given lengths."""

    def _run(
        self,
        tensor: np.ndarray,
        split: np.ndarray | None = None,
        axis: int = 0,
        keepdims: int = 1,
    ) -> tuple[Value, ...]:
        rank = tensor.ndim
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is outside of {-rank} to {rank - 1}")
        size = tensor.shape[axis]
        before = (slice(None),) * (axis % rank)
        if split is None and not keepdims:
            # The ellipsis keeps an element of rank 0 an array.
            return ([tensor[(*before, i, ...)] for i in range(size)],)
        result, start = [], 0
        for length in self._lengths(split, size):
            result.append(tensor[(*before, slice(start, start + length))])
            start += length
        return (result,)

    def _lengths(self, split: np.ndarray | None, size: int) -> list[int]:
        if split is None:
            return [1] * size
        if split.ndim == 0:
            length = self.integer(split, "split")
            if length <= 0:
                raise self.error(f"split is {length}, not a positive number")
            return [min(length, size - start) for start in range(0, size, length)]
        lengths: list[int] = split.tolist()
        if split.ndim != 1 or min(lengths, default=0) < 0 or sum(lengths) != size:
            raise self.error(f"the lengths {lengths} do not divide an axis of {size}")
        return lengths


class Optional(Operator):
    """An optional is what it holds, or None."""

    def _run(self, value: Value = None, type: Any = None) -> tuple[Value, ...]:  # noqa: A002
        return (value,)


class OptionalGetElement(Operator):
    """What an optional holds; an error if it holds nothing."""

    def _run(self, value: Value) -> tuple[Value, ...]:
        if value is None:
            raise self.error("the optional holds nothing")
        return (value,)


class Identity(Operator):
    """A tensor, a sequence or an optional, absent ones too."""

    def _run(self, value: Value) -> tuple[Value, ...]:
        return (value.copy() if isinstance(value, np.ndarray | list) else value,)


class If(ControlFlow):
    """One of two bodies."""

    def _run(
        self,
        condition: np.ndarray,
        then_branch: Any,
        else_branch: Any,
        context: Mapping[str, Value],
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Value, ...]:
        if condition.size != 1:
            raise self.error(f"the condition has shape {condition.shape}, not one element")
        name, body = ("else_branch", else_branch)
        if condition.item():
            name, body = ("then_branch", then_branch)
        feeds = self.captured(name, context)
        return tuple(self.evaluate(body, feeds, attributes, bindings))


SEQUENCE_OPERATORS: tuple[type[Operator], ...] = (
    SequenceMap,
    SequenceAt,
    SequenceInsert,
    SequenceErase,
    ConcatFromSequence,
    SplitToSequence,
    Optional,
    OptionalGetElement,
    Identity,
    If,
)
