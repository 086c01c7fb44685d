"""Writes a Loop over the samples of a map, with scan outputs and with insertion."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.graph.builder import Builder, tensor_value
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.node_copies import copy_body
from passes.loops.forms import Form, LoopBody, OutputPlan
from passes.maps.element_source import Read
from passes.typing import Typings

__all__ = [
    "LoopWriter",
    "empty_sequence",
    "go_on",
    "insert",
    "sequence_of_nothing",
    "sequence_value",
]

_INT64 = ir.DataType.INT64
_BOOL = ir.DataType.BOOL

_NEED_RANKS = frozenset(
    {"Loop", "Scan", "Attention", "CausalConvWithState", "LinearAttention", "MatMul"}
)
"""onnxruntime asks for ranks around a loop; ONNX infers that scores without a rank are scalars.

A product of matrices with what is added to it is one kernel, where onnxruntime knows the ranks.

onnxruntime 1.32 writes the operators that are new in opset 27 as their functions, one with a Scan.
"""


def empty_sequence(builder: Builder, dtype: ir.DataType | None) -> ir.Value:
    """Record an empty sequence."""
    value = builder.op("SequenceEmpty", [], {"dtype": None if dtype is None else int(dtype)})
    value.type = None if dtype is None else ir.SequenceType(ir.TensorType(dtype))
    return value


def sequence_value(name: str, dtype: ir.DataType | None) -> ir.Value:
    """Return a new value that holds a sequence."""
    type_ = None if dtype is None else ir.SequenceType(ir.TensorType(dtype))
    return ir.Value(name=name, type=type_)


def insert(builder: Builder, sequence: ir.Value, element: ir.Value) -> ir.Value:
    """Record a sequence with one more element at the back."""
    value = builder.op("SequenceInsert", [sequence, element])
    value.type = sequence.type
    return value


def sequence_of_nothing(builder: Builder, dtype: ir.DataType, dims: Sequence[int]) -> ir.Value:
    """Record a sequence of one element that has a shape, and no numbers."""
    array = np.empty(dims, object if dtype == ir.DataType.STRING else dtype.numpy())
    value = builder.op("SequenceConstruct", [builder.constant(array)])
    value.type = ir.SequenceType(ir.TensorType(dtype))
    return value


def _begun(builder: Builder, plan: OutputPlan) -> ir.Value:
    """Record the sequence that samples are inserted into."""
    if plan.begin is None or plan.dtype is None:
        return empty_sequence(builder, plan.dtype)
    return sequence_of_nothing(builder, plan.dtype, plan.begin)


def go_on(builder: Builder, condition: ir.Value) -> ir.Value:
    """Record the condition that a Loop body hands on, which stays true."""
    value = builder.op("Identity", [condition])
    value.type, value.shape = ir.TensorType(_BOOL), ir.Shape([])
    return value


def _own_strings(builder: Builder, value: ir.Value, plan: OutputPlan) -> ir.Value:
    """Return strings that an iteration may give away.

    onnxruntime moves the strings of a scan output into the stack, out of a captured value too.
    """
    if plan.dtype is not ir.DataType.STRING:
        return value
    return builder.op("Where", [builder.flag(True), value, value])


@dataclasses.dataclass
class LoopWriter:
    """Writes one Loop over all samples.

    Attributes:
        body: What is computed for each sample.
        typings: Gains the types of the copies.
        plans: How each used output of the body is collected.
        reads: How the elements are read.
    """

    body: LoopBody
    typings: Typings
    plans: Mapping[int, OutputPlan]
    reads: list[Read]

    def with_form(self, form: Form) -> list[int]:
        """Return the outputs of the body that are collected in one form."""
        return [i for i, plan in self.plans.items() if plan.form is form]

    def apply_body(self, builder: Builder, index: ir.Value) -> list[ir.Value]:
        """Record the body for one sample and return its outputs."""
        values: dict[ir.Value, ir.Value | None] = dict(self.body.shared)
        for (inner, _), read in zip(self.body.elements, self.reads, strict=True):
            element = read(builder, index)
            rank = self.typings.declared.rank(inner)
            if element.shape is None and rank is not None and self._needs_ranks:
                element.shape = ir.Shape([None] * rank)
            values[inner] = element
        builder.nodes.extend(copy_body(self.body.nodes, values))
        _tell_proven_shapes(self.body.nodes, values, self.typings)
        self.typings.copy(values)
        outputs: list[ir.Value] = []
        for old in self.body.outputs:
            new = values.get(old, old)
            assert new is not None
            outputs.append(new)
        return outputs

    @property
    def _needs_ranks(self) -> bool:
        """Whether the body holds a node that wants to know the ranks of what it reads."""
        return any(node.op_type in _NEED_RANKS for node in walk_nodes(self.body.nodes))

    def scan_output(self, builder: Builder, value: ir.Value, plan: OutputPlan) -> ir.Value:
        """Return a body output whose type tells the dimensions that zero trips would lose."""
        copied = builder.op("Identity", [_own_strings(builder, value, plan)])
        copied.type = None if plan.dtype is None else ir.TensorType(plan.dtype)
        if plan.dims is not None:
            dims = plan.proven or (None,) * len(plan.dims)
            copied.shape = ir.Shape([d if isinstance(d, int) else None for d in dims])
        return copied

    def write(self, builder: Builder, count: ir.Value) -> dict[int, Batched]:
        """Record one Loop; no output has the form of blocks."""
        inserted = self.with_form(Form.INSERTION)
        scanned = self.with_form(Form.SCAN_OUTPUT)
        index, condition = tensor_value("i", _INT64, []), tensor_value("cond", _BOOL, [])
        states = {i: sequence_value("collected", self.plans[i].dtype) for i in inserted}

        def write(inner: Builder) -> list[ir.Value]:
            outputs = self.apply_body(inner, index)
            return [
                go_on(inner, condition),
                *(insert(inner, states[i], outputs[i]) for i in inserted),
                *(self.scan_output(inner, outputs[i], self.plans[i]) for i in scanned),
            ]

        body = builder.subgraph("samples", [index, condition, *states.values()], write)
        loop = builder.node(
            "Loop",
            [
                count,
                builder.flag(True),
                *(_begun(builder, self.plans[i]) for i in inserted),
            ],
            {"body": body},
            outputs=len(self.plans),
        )
        forms = [
            *((i, Form.INSERTION) for i in inserted),
            *((i, Form.SCAN_OUTPUT) for i in scanned),
        ]
        held = {}
        for (i, form), value in zip(forms, loop.outputs, strict=True):
            self.set_type(value, i, form)
            held[i] = self.plans[i].collected(value)
        return held

    def set_type(self, value: ir.Value, output: int, form: Form) -> None:
        """Give what a Loop collects for an output its type."""
        dtype = self.plans[output].dtype
        if dtype is not None:
            tensor = ir.TensorType(dtype)
            value.type = ir.SequenceType(tensor) if form is Form.INSERTION else tensor


def _tell_proven_shapes(
    nodes: Iterable[ir.Node], copies: Mapping[ir.Value, ir.Value | None], typings: Typings
) -> None:
    """Write the proven dimensions of what Loops collect to copies of them, beside declared ones.

    A Loop that makes no trips for some samples yields 0 for each dimension that the output of its
    body does not tell. What collects the samples takes those for the dimensions of every sample.

    Args:
        nodes: The nodes of a body, with Loops at any depth.
        copies: What each value of the body became.
        typings: Both typings of the body.
    """
    for node in walk_nodes(nodes):
        for value in _collected(node) if is_operator(node, "Loop") else ():
            copy, dims = copies.get(value), typings.proven_dims(value)
            if copy is None or copy is value or dims is None:
                continue
            told: list[object] = list(copy.shape or ())
            if len(told) != len(dims):
                told = [None] * len(dims)
            numbers = [p if isinstance(p, int) else d for p, d in zip(dims, told, strict=True)]
            copy.shape = ir.Shape([d if isinstance(d, int) else None for d in numbers])


def _collected(loop: ir.Node) -> list[ir.Value]:
    """Return what the body of a Loop computes for its scan outputs by nodes of its own."""
    body = loop.attributes["body"].as_graph()
    states = max(len(loop.inputs) - 2, 0)
    return [
        value
        for value in body.outputs[1 + states :]
        if (maker := value.producer()) is not None and maker.graph is body
    ]
