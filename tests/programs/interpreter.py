"""What a model computes, by the words of the specification: plain numpy, node by node.

It shares no code with the project, nor with any runtime: it is what programs are judged by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tests.programs.operators import OPERATORS, Failure

__all__ = ["Ambiguous", "Failure", "Interpreter", "Unsettled", "run_model"]

MOST_TRIPS = 1000


class Ambiguous(Exception):
    """A value is read that the specification does not settle."""


@dataclasses.dataclass(frozen=True)
class Unsettled:
    """What a Loop of no trips yields: no rows, and nothing is said of the other dimensions."""

    rank: int | None = None


Observer = Callable[[str, str, Any], None]
BeforeNode = Callable[[onnx.NodeProto, Mapping[str, Any]], None]


@dataclasses.dataclass
class Interpreter:
    """Computes models.

    Attributes:
        opset: Version of the default domain.
        functions: The functions of the model, by domain and name.
        observer: Told of each value of a subgraph's interface: graph, value name, value.
        before: Told of each node of the main graph before it runs, and of the values so far.
        largest: The largest magnitude of a finite number seen by element type.
    """

    opset: int
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = dataclasses.field(
        default_factory=dict
    )
    observer: Observer | None = None
    before: BeforeNode | None = None
    largest: float = 0.0

    def run(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs of a model."""
        inputs = [feeds[v.name] for v in _open(model.graph)]
        return self.graph(model.graph, inputs, {}, self.before)

    def graph(
        self,
        graph: onnx.GraphProto,
        inputs: Sequence[Any],
        outer: Mapping[str, Any],
        before: BeforeNode | None = None,
    ) -> list[Any]:
        """Return the outputs of a graph; ``before`` is told of its own nodes."""
        env = dict(outer)
        env.update({t.name: _array(t) for t in graph.initializer})
        for value, given in zip(_open(graph), inputs, strict=True):
            env[value.name] = given
            self._observe(graph.name, value.name, given)
        self.nodes(graph.node, env, before)
        found = [env[v.name] for v in graph.output]
        for value, result in zip(graph.output, found, strict=True):
            self._observe(graph.name, value.name, result)
        return found

    def _observe(self, graph: str, name: str, value: Any) -> None:
        if self.observer is not None:
            self.observer(graph, name, value)

    def nodes(
        self,
        nodes: Sequence[onnx.NodeProto],
        env: dict[str, Any],
        before: BeforeNode | None = None,
    ) -> None:
        """Run nodes in their order; results are added to the environment."""
        for node in nodes:
            if before is not None:
                before(node, env)
            results = self.node(node, env)
            env.update({n: r for n, r in zip(node.output, results, strict=False) if n})

    def node(self, node: onnx.NodeProto, env: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the results of one node."""
        attributes = {a.name: _attribute(a) for a in node.attribute}
        control = _CONTROL.get(node.op_type) if not node.domain else None
        inputs = [env[name] if name else None for name in node.input]
        if control is not None:
            return control(self, inputs, attributes, env)
        function = self.functions.get((node.domain, node.op_type))
        if node.op_type != "Identity" and function is None:
            for value in inputs:
                settled(value)
        if function is not None:
            inner = dict(zip(function.input, inputs, strict=False))
            self.nodes(function.node, inner)
            return tuple(inner[name] for name in function.output)
        with np.errstate(all="ignore"):
            found = OPERATORS[node.op_type](inputs, attributes, self.opset, len(node.output))
        results = found if isinstance(found, tuple) else (found,)
        for result in results:
            self._measure(result)
        return results

    def _measure(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            finite = np.abs(value[np.isfinite(value)].astype(np.float64))
            self.largest = max(self.largest, float(finite.max(initial=0.0)))


def run_model(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    observer: Observer | None = None,
    before: BeforeNode | None = None,
) -> tuple[dict[str, Any], float]:
    """Return what a model computes by output name, and the largest number on the way.

    Raises:
        Failure: The specification makes an error of these values.
        Ambiguous: It leaves the result open.
    """
    opset = next(o.version for o in model.opset_import if o.domain == "")
    functions = {(f.domain, f.name): f for f in model.functions}
    interpreter = Interpreter(opset, functions, observer, before)
    found = interpreter.run(model, feeds)
    return dict(zip((v.name for v in model.graph.output), found, strict=True)), interpreter.largest


def settled(value: Any) -> Any:
    """Return a value that is settled.

    Raises:
        Ambiguous: It is not.
    """
    if isinstance(value, Unsettled):
        raise Ambiguous
    return value


def _open(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no initializer."""
    constants = {t.name for t in graph.initializer}
    return [v for v in graph.input if v.name not in constants]


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    array = onnx.numpy_helper.to_array(tensor)
    if tensor.data_type == onnx.TensorProto.STRING:
        return np.array([s.decode() for s in tensor.string_data], object).reshape(array.shape)
    return array


def _attribute(attribute: onnx.AttributeProto) -> Any:
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _array(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode() for v in value]
    return value


Env = Mapping[str, Any]


def _if(run: Interpreter, inputs: list[Any], attributes: Any, env: Env) -> tuple[Any, ...]:
    condition = settled(inputs[0])
    if condition.size != 1:
        raise Failure("a condition of more than one element")
    branch = "then_branch" if bool(condition.reshape(())) else "else_branch"
    return tuple(run.graph(attributes[branch], [], env))


def _map(run: Interpreter, inputs: list[Any], attributes: Any, env: Env) -> tuple[Any, ...]:
    body = attributes["body"]
    first = settled(inputs[0])
    for other in inputs[1:]:
        if isinstance(settled(other), list) and len(other) < len(first):
            raise Failure("a sequence that is too short")
        if isinstance(other, list) and len(other) > len(first):
            raise Ambiguous
    rows = []
    for i in range(len(first)):
        sample = [value[i] if isinstance(value, list) else value for value in inputs]
        rows.append([settled(result) for result in run.graph(body, sample, env)])
    return tuple([row[k] for row in rows] for k in range(len(body.output)))


def _loop(run: Interpreter, inputs: list[Any], attributes: Any, env: Env) -> tuple[Any, ...]:
    body = attributes["body"]
    limit = None if inputs[0] is None else int(settled(inputs[0]).reshape(()))
    go = True if len(inputs) < 2 or inputs[1] is None else bool(settled(inputs[1]).reshape(()))
    states = list(inputs[2:])
    rows: list[list[Any]] = []
    number = 0
    while go and (limit is None or number < limit):
        if number >= MOST_TRIPS:
            raise Ambiguous
        found = run.graph(body, [np.array(number, np.int64), np.array(go), *states], env)
        go = bool(settled(found[0]).reshape(()))
        states = found[1 : 1 + len(states)]
        rows.append([settled(value) for value in found[1 + len(states) :]])
        number += 1
    outputs = body.output[1 + len(states) :]
    stacks = [_stacked([row[k] for row in rows], output) for k, output in enumerate(outputs)]
    return (*states, *stacks)


def _stacked(values: list[Any], output: onnx.ValueInfoProto, axis: int = 0) -> Any:
    if not values:
        return Unsettled()
    if len({v.shape for v in values}) > 1:
        raise Failure("scan outputs of different shapes")
    return np.stack(values, axis)


def _scan(run: Interpreter, inputs: list[Any], attributes: Any, env: Env) -> tuple[Any, ...]:
    body = attributes["body"]
    number = attributes["num_scan_inputs"]
    states = list(inputs[: len(inputs) - number])
    tensors = [settled(value) for value in inputs[len(states) :]]
    axes = attributes.get("scan_input_axes", [0] * number)
    backward = attributes.get("scan_input_directions", [0] * number)
    sizes = {t.shape[a] for t, a in zip(tensors, axes, strict=True)}
    if len(sizes) != 1:
        raise Failure("scan inputs of different lengths")
    rows = []
    for step in range(sizes.pop()):
        parts = [
            np.take(t, t.shape[a] - 1 - step if back else step, a)
            for t, a, back in zip(tensors, axes, backward, strict=True)
        ]
        found = run.graph(body, [*states, *map(np.asarray, parts)], env)
        states = found[: len(states)]
        rows.append([settled(value) for value in found[len(states) :]])
    outputs = body.output[len(states) :]
    out_axes = attributes.get("scan_output_axes", [0] * len(outputs))
    reverse = attributes.get("scan_output_directions", [0] * len(outputs))
    stacks = []
    for k, output in enumerate(outputs):
        values = [row[k] for row in rows]
        stacks.append(_stacked(values[::-1] if reverse[k] else values, output, out_axes[k]))
    return (*states, *stacks)


_CONTROL: dict[str, Callable[[Interpreter, list[Any], Any, Env], tuple[Any, ...]]] = {
    "If": _if,
    "SequenceMap": _map,
    "Loop": _loop,
    "Scan": _scan,
}
