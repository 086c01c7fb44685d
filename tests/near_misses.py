"""Models that are one edit away from one that is rewritten.

Another operator, constant, attribute or operand, or an operator of another domain that is called
like one of ONNX's own: such a model has to be taken for what it is, or left as it is.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

__all__ = ["Edit", "near_misses"]

_ALIKE = (
    ("Add", "Sub", "Mul", "Max", "Min"),
    ("And", "Or", "Xor"),
    ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"),
    ("Neg", "Abs", "Relu", "Not", "Identity"),
    ("ReduceSum", "ReduceMax", "ReduceMin"),
    ("ArgMax", "ArgMin"),
)
_JOINED = ("none", "add", "mul", "max", "min")
_FOREIGN = "near.misses"
_STEPS = (1, -1)

Types = Mapping[str, tuple[int, int]]
"""Element type and rank of values."""

Change = Callable[[NodeProto], None]


@dataclasses.dataclass(frozen=True)
class Edit:
    """One change of one node.

    Attributes:
        name: What is changed.
        graph: In which graph, in the order in which they begin.
        node: Which node there.
        change: Changes it; None puts a function of another domain in its place.
    """

    name: str
    graph: int
    node: int
    change: Change | None

    def of(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return the changed model."""
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        node = [graph for graph, _ in _graphs(copy.graph, ())][self.graph].node[self.node]
        if self.change is None:
            _make_foreign(copy, node)
        else:
            self.change(node)
        return copy


def near_misses(model: onnx.ModelProto, seed: str) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Draw models that are one edit away and that ONNX's checker accepts, with their names."""
    edits = list(_edits(model))
    random.Random(seed).shuffle(edits)
    for edit in edits:
        near = edit.of(model)
        try:
            onnx.checker.check_model(near, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError):
            continue  # a ValueError: an element type that nothing gives
        yield edit.name, near


def _edits(model: onnx.ModelProto) -> Iterator[Edit]:
    types = _types(model)
    for at, (graph, visible) in enumerate(_graphs(model.graph, ())):
        known = list(visible)
        for number, node in enumerate(graph.node):
            changes: list[tuple[str, Change | None]] = [
                *_operators(node),
                *_operands(node, known, types),
                *_attributes(node),
            ]
            if node.op_type not in ("Constant", "If", "Loop", "Scan") and len(node.output) == 1:
                changes.append(("is of another domain", None))
            for what, change in changes:
                yield Edit(f"{node.op_type} {node.output[0]}: {what}", at, number, change)
            known += node.output


def _operators(node: NodeProto) -> Iterator[tuple[str, Change]]:
    for family in _ALIKE:
        for other in family if node.op_type in family else ():

            def change(one: NodeProto, other: str = other) -> None:
                one.op_type = other

            if other != node.op_type:
                yield other, change


def _operands(node: NodeProto, known: Sequence[str], types: Types) -> Iterator[tuple[str, Change]]:
    for at, given in enumerate(node.input):
        alike = [n for n in known if n != given and n in types and types[n] == types.get(given)]
        for name in dict.fromkeys([*alike[-2:], *alike[:2]]):

            def put(one: NodeProto, at: int = at, name: str = name) -> None:
                one.input[at] = name

            yield f"operand {at} is {name}", put

        def swap(one: NodeProto, at: int = at) -> None:
            one.input[at - 1], one.input[at] = one.input[at], one.input[at - 1]

        if at:
            yield f"operands {at - 1} and {at} swapped", swap

    def leave_out(one: NodeProto) -> None:
        del one.input[-1]

    if len(node.input) > 1:
        yield "last operand left out", leave_out


def _attributes(node: NodeProto) -> Iterator[tuple[str, Change]]:
    for at, attribute in enumerate(node.attribute):
        for value in _others(attribute):

            def change(one: NodeProto, at: int = at, value: object = value) -> None:
                name = one.attribute[at].name
                one.attribute[at].CopyFrom(onnx.helper.make_attribute(name, value))

            shown = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
            yield f"{attribute.name} is {shown}", change
    has_one = any(a.name == "reduction" for a in node.attribute)
    for joined in _JOINED[1:] if node.op_type.startswith("Scatter") and not has_one else ():

        def join(one: NodeProto, joined: str = joined) -> None:
            one.attribute.append(onnx.helper.make_attribute("reduction", joined))

        yield joined, join


def _others(attribute: onnx.AttributeProto) -> list[object]:
    """Return other values of an attribute."""
    if attribute.type == onnx.AttributeProto.INT:
        return [attribute.i + step for step in _STEPS]
    if attribute.type == onnx.AttributeProto.INTS:
        moved_ints = ([i + step for i in attribute.ints] for step in _STEPS)
        return [ints for ints in moved_ints if all(-(2**63) <= i < 2**63 for i in ints)]
    if attribute.type == onnx.AttributeProto.STRING:
        return [one for one in _JOINED if one != attribute.s.decode()]
    if attribute.type != onnx.AttributeProto.TENSOR:
        return []
    array = numpy_helper.to_array(attribute.t)
    if array.dtype == bool:
        return [numpy_helper.from_array(~array)]
    # -1 of unsigned numbers is their largest: what is added to runs over.
    moved = [array + np.array(step).astype(array.dtype) for step in _STEPS]
    twice = [np.repeat(array, 2)] if array.shape == (1,) else []
    return [numpy_helper.from_array(one) for one in (*moved, *twice)]


def _make_foreign(model: onnx.ModelProto, node: NodeProto) -> None:
    """Let a node be one of another domain, of the same name, that computes something else."""
    made = NodeProto()
    made.CopyFrom(node)
    inputs = [f"near_{at}" for at in range(len(node.input))]
    made.input[:], made.output[:] = inputs, ["near_made"]
    # Another result of the same shape, of numbers of any type.
    other = onnx.helper.make_node("Mul", ["near_made", "near_made"], ["near_result"])
    model.functions.append(
        onnx.helper.make_function(
            _FOREIGN, node.op_type, inputs, ["near_result"], [made, other], model.opset_import[:1]
        )
    )
    model.opset_import.append(onnx.helper.make_opsetid(_FOREIGN, 1))
    node.domain = _FOREIGN
    del node.attribute[:]


def _graphs(
    graph: onnx.GraphProto, around: Sequence[str]
) -> Iterator[tuple[onnx.GraphProto, list[str]]]:
    """Yield a graph and those inside of it, each with what its first node may read."""
    known = [*around, *(i.name for i in graph.input), *(i.name for i in graph.initializer)]
    yield graph, known
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g, known)
        known = [*known, *node.output]


def _types(model: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    inferred = onnx.shape_inference.infer_shapes(model)
    found: dict[str, tuple[int, int]] = {}
    for graph, _ in _graphs(inferred.graph, ()):
        for info in (*graph.input, *graph.output, *graph.value_info):
            tensor = info.type.tensor_type
            if tensor.HasField("shape"):
                found[info.name] = (tensor.elem_type, len(tensor.shape.dim))
    return found
