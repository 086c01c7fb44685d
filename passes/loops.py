"""Writes a map as a Loop.

Three forms, by what is known of the shape of an output:

1. one shape for all samples: a scan output of the Loop, ``[B, *shape]``;
2. samples that differ along one axis: blocks. An inner Loop collects a block of samples in a
   short sequence and concatenates it, an outer Loop collects the blocks. Inserting into a
   sequence copies it, so one long sequence takes quadratic time and short ones do not;
3. anything else: one sequence, by insertion.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.builder import Builder, tensor_value
from passes.graphs import copy_nodes
from passes.site import ElementSource, MapSite
from passes.sources import PreparedSource, prepare_source
from passes.typing import Typings, ValueType

__all__ = ["Form", "Held", "LoopBody", "OutputPlan", "write_loop"]

BLOCK = 128
"""Samples in a block: inserting costs some 33 ns times half of it for each sample."""

_INT64 = ir.DataType.INT64
_BOOL = ir.DataType.BOOL


class Form(enum.StrEnum):
    """How a Loop collects one output of the body."""

    SCAN_OUTPUT = "scan output"
    BLOCKS = "blocks"
    INSERTION = "insertion"


@dataclasses.dataclass(frozen=True)
class LoopBody:
    """What a Loop computes for each sample.

    Attributes:
        nodes: The nodes, copied into the Loop.
        outputs: Their values that leave the Loop.
        elements: Each value that differs per sample, and where its element is read.
        shared: Each value that is one for all samples, and the value outside that it is.
    """

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]
    elements: Sequence[tuple[ir.Value, ElementSource]]
    shared: Mapping[ir.Value, ir.Value]

    @classmethod
    def of(cls, site: MapSite) -> LoopBody:
        """Return the whole body of a map."""
        return cls(list(site.body), list(site.body.outputs), site.elements, dict(site.shared))


@dataclasses.dataclass(frozen=True)
class OutputPlan:
    """How one output of the body is collected.

    Attributes:
        form: The form.
        dtype: Its element type, if known.
        dims: Its dimensions, None for each that may differ by sample.
        axis: With blocks: the axis that is concatenated.
    """

    form: Form
    dtype: ir.DataType | None
    dims: tuple[int | str | None, ...] | None
    axis: int = 0


@dataclasses.dataclass(frozen=True)
class Held:
    """What came of one output: a stacked tensor, a packed one with lengths, or a sequence.

    Attributes:
        form: Which of the three.
        value: The tensor or sequence.
        lengths: With blocks: size of each sample along the axis, int64 ``[B]``.
        axis: With blocks: the axis.
    """

    form: Form
    value: ir.Value
    lengths: ir.Value | None = None
    axis: int = 0


def write_loop(
    builder: Builder,
    body: LoopBody,
    typings: Typings,
    plans: Mapping[int, OutputPlan],
    count: ir.Value | None = None,
) -> dict[int, Held]:
    """Record a Loop over the samples of a map.

    Args:
        builder: Writes the graph that the map stands in.
        body: What is computed for each sample.
        typings: Gains the types of the copies.
        plans: How each used output of the body is collected.
        count: Number of samples, an int64 scalar; otherwise the first element source gives it.

    Returns:
        What each of these outputs has become.
    """
    sources = [
        prepare_source(builder, source, typings.declared.dtype(inner))
        for inner, source in body.elements
    ]
    writer = _Writer(body, typings, plans, sources)
    if count is None:
        count = sources[0].count(builder)
    if any(plan.form is Form.BLOCKS for plan in plans.values()):
        held = writer.write_in_blocks(builder, count)
    else:
        held = writer.write_single(builder, count)
    for i, one in held.items():
        _enter_types(typings, plans[i], one)
    return held


def _enter_types(typings: Typings, plan: OutputPlan, held: Held) -> None:
    """Tell what is known of the tensors that a loop gives: a later map may read them."""
    if plan.form is Form.INSERTION or plan.dims is None or plan.dtype is None:
        return
    dims: list[int | str | None] = list(plan.dims)
    if plan.form is Form.SCAN_OUTPUT:
        dims.insert(0, None)
    else:
        dims[plan.axis] = None
    for typing in (typings.declared, typings.proven):
        typing.set(held.value, ValueType(ir.TensorType(plan.dtype), tuple(dims)))
        if held.lengths is not None:
            typing.set(held.lengths, ValueType(ir.TensorType(_INT64), (None,)))


def _empty_sequence(builder: Builder, dtype: ir.DataType | None) -> ir.Value:
    value = builder.op("SequenceEmpty", [], {"dtype": None if dtype is None else int(dtype)})
    value.type = None if dtype is None else ir.SequenceType(ir.TensorType(dtype))
    return value


def _sequence_value(name: str, dtype: ir.DataType | None) -> ir.Value:
    type_ = None if dtype is None else ir.SequenceType(ir.TensorType(dtype))
    return ir.Value(name=name, type=type_)


def _insert(builder: Builder, sequence: ir.Value, element: ir.Value) -> ir.Value:
    value = builder.op("SequenceInsert", [sequence, element])
    value.type = sequence.type
    return value


def _condition(builder: Builder, condition: ir.Value) -> ir.Value:
    value = builder.op("Identity", [condition])
    value.type, value.shape = ir.TensorType(_BOOL), ir.Shape([])
    return value


@dataclasses.dataclass
class _Writer:
    body: LoopBody
    typings: Typings
    plans: Mapping[int, OutputPlan]
    sources: list[PreparedSource]

    def _with_form(self, form: Form) -> list[int]:
        return [i for i, plan in self.plans.items() if plan.form is form]

    def _apply_body(self, builder: Builder, index: ir.Value) -> list[ir.Value]:
        """Record the body for one sample and return its outputs."""
        values: dict[ir.Value, ir.Value | None] = dict(self.body.shared)
        for (inner, _), source in zip(self.body.elements, self.sources, strict=True):
            values[inner] = source.read(builder, index)
        builder.nodes.extend(copy_nodes(self.body.nodes, values))
        self.typings.copy(values)
        outputs: list[ir.Value] = []
        for old in self.body.outputs:
            new = values.get(old, old)
            assert new is not None
            outputs.append(new)
        return outputs

    def _scan_output(self, builder: Builder, value: ir.Value, plan: OutputPlan) -> ir.Value:
        """Return a body output whose type tells the dimensions that zero trips would lose."""
        copied = builder.op("Identity", [value])
        copied.type = None if plan.dtype is None else ir.TensorType(plan.dtype)
        if plan.dims is not None:
            copied.shape = ir.Shape([d if isinstance(d, int) else None for d in plan.dims])
        return copied

    def write_single(self, builder: Builder, count: ir.Value) -> dict[int, Held]:
        """Record one Loop; no output has the form of blocks."""
        inserted = self._with_form(Form.INSERTION)
        scanned = self._with_form(Form.SCAN_OUTPUT)
        index, condition = tensor_value("i", _INT64, []), tensor_value("cond", _BOOL, [])
        states = {i: _sequence_value("collected", self.plans[i].dtype) for i in inserted}

        def write(inner: Builder) -> list[ir.Value]:
            outputs = self._apply_body(inner, index)
            return [
                _condition(inner, condition),
                *(_insert(inner, states[i], outputs[i]) for i in inserted),
                *(self._scan_output(inner, outputs[i], self.plans[i]) for i in scanned),
            ]

        body = builder.subgraph("samples", [index, condition, *states.values()], write)
        loop = builder.node(
            "Loop",
            [
                count,
                builder.flag(True),
                *(_empty_sequence(builder, self.plans[i].dtype) for i in inserted),
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
            self._type(value, i, form)
            held[i] = Held(form, value)
        return held

    def _type(self, value: ir.Value, output: int, form: Form) -> None:
        dtype = self.plans[output].dtype
        if dtype is not None:
            tensor = ir.TensorType(dtype)
            value.type = ir.SequenceType(tensor) if form is Form.INSERTION else tensor

    def write_in_blocks(self, builder: Builder, count: ir.Value) -> dict[int, Held]:
        """Record a Loop over blocks of samples around a Loop over the samples of a block."""
        blocks = self._with_form(Form.BLOCKS)
        scanned = self._with_form(Form.SCAN_OUTPUT)
        inserted = self._with_form(Form.INSERTION)
        tensors = [*blocks, *scanned]
        # Without samples there is one block of none, so that the shapes come out right.
        end = builder.op("Max", [count, builder.scalar(1)])
        starts = builder.op("Range", [builder.scalar(0), end, builder.scalar(BLOCK)])
        number = builder.op("Size", [starts])
        block_index = tensor_value("block", _INT64, [])
        condition = tensor_value("cond_block", _BOOL, [])
        whole = {i: _sequence_value("blocks", self.plans[i].dtype) for i in tensors}
        lengths = {i: _sequence_value("block_lengths", _INT64) for i in blocks}
        states = {i: _sequence_value("collected", self.plans[i].dtype) for i in inserted}
        first = {i: self._first_element(builder, i, count) for i in blocks}

        def write(inner: Builder) -> list[ir.Value]:
            start = inner.op("Gather", [starts, block_index], {"axis": 0})
            left = inner.op("Sub", [count, start])
            size = inner.op("Min", [left, inner.scalar(BLOCK)])
            part = self._write_block(inner, start, size, first, states)
            return [
                _condition(inner, condition),
                *(_insert(inner, whole[i], part.tensors[i]) for i in tensors),
                *(_insert(inner, lengths[i], part.lengths[i]) for i in blocks),
                *(part.sequences[i] for i in inserted),
            ]

        inputs = [block_index, condition, *whole.values(), *lengths.values(), *states.values()]
        body = builder.subgraph("blocks", inputs, write)
        loop = builder.node(
            "Loop",
            [
                number,
                builder.flag(True),
                *(_empty_sequence(builder, self.plans[i].dtype) for i in tensors),
                *(_empty_sequence(builder, _INT64) for _ in blocks),
                *(_empty_sequence(builder, self.plans[i].dtype) for i in inserted),
            ],
            {"body": body},
            outputs=len(inputs) - 2,
        )
        outputs = iter(loop.outputs)
        held = {}
        for i in tensors:
            plan = self.plans[i]
            axis = plan.axis if plan.form is Form.BLOCKS else 0
            value = builder.op("ConcatFromSequence", [next(outputs)], {"axis": axis})
            self._type(value, i, plan.form)
            held[i] = Held(plan.form, value)
        for i in blocks:
            sizes = builder.op("ConcatFromSequence", [next(outputs)], {"axis": 0})
            held[i] = Held(Form.BLOCKS, held[i].value, sizes, self.plans[i].axis)
        for i in inserted:
            value = next(outputs)
            self._type(value, i, Form.INSERTION)
            held[i] = Held(Form.INSERTION, value)
        return held

    def _first_element(self, builder: Builder, output: int, count: ir.Value) -> ir.Value:
        """Return the sequence that each block starts with, so that a block of none has a shape.

        It holds an element of length 0 along the axis. Where another dimension is no number, the
        element is there only if there are no samples. Where it may differ by sample, a
        concatenation is all that is wanted, and of nothing that is an error.
        """
        plan = self.plans[output]
        dims = None if plan.dims is None else list(plan.dims)
        if dims is None or plan.dtype is None:
            return _empty_sequence(builder, plan.dtype)
        dims[plan.axis] = 0
        if None in dims:
            return _empty_sequence(builder, plan.dtype)
        shape = [d if isinstance(d, int) else 0 for d in dims]
        dtype = plan.dtype
        array = np.empty(shape, object if dtype == ir.DataType.STRING else dtype.numpy())

        def write_element(inner: Builder) -> list[ir.Value]:
            sequence = inner.op("SequenceConstruct", [inner.constant(array)])
            sequence.type = ir.SequenceType(ir.TensorType(dtype))
            return [sequence]

        if shape == dims:
            return write_element(builder)[0]
        branches = {
            "then_branch": builder.subgraph("none", [], write_element),
            "else_branch": builder.subgraph(
                "some", [], lambda inner: [_empty_sequence(inner, dtype)]
            ),
        }
        sequence = builder.op("If", [builder.op("Equal", [count, builder.scalar(0)])], branches)
        sequence.type = ir.SequenceType(ir.TensorType(dtype))
        return sequence

    def _write_block(
        self,
        builder: Builder,
        start: ir.Value,
        size: ir.Value,
        first: Mapping[int, ir.Value],
        states: Mapping[int, ir.Value],
    ) -> _Block:
        blocks = self._with_form(Form.BLOCKS)
        scanned = self._with_form(Form.SCAN_OUTPUT)
        index, condition = tensor_value("i", _INT64, []), tensor_value("cond", _BOOL, [])
        short = {i: _sequence_value("block", self.plans[i].dtype) for i in blocks}
        carried = {i: _sequence_value("collected", self.plans[i].dtype) for i in states}

        def write(inner: Builder) -> list[ir.Value]:
            outputs = self._apply_body(inner, inner.op("Add", [start, index]))
            sizes = []
            for i in blocks:
                shape = inner.op("Shape", [outputs[i]])
                axis = inner.scalar(self.plans[i].axis)
                length = inner.op("Gather", [shape, axis], {"axis": 0})
                length.type, length.shape = ir.TensorType(_INT64), ir.Shape([])
                sizes.append(length)
            return [
                _condition(inner, condition),
                *(_insert(inner, short[i], outputs[i]) for i in blocks),
                *(_insert(inner, carried[i], outputs[i]) for i in states),
                *(self._scan_output(inner, outputs[i], self.plans[i]) for i in scanned),
                *sizes,
            ]

        inputs = [index, condition, *short.values(), *carried.values()]
        body = builder.subgraph("samples", inputs, write)
        loop = builder.node(
            "Loop",
            [
                size,
                builder.flag(True),
                *first.values(),
                *states.values(),
            ],
            {"body": body},
            outputs=2 * len(blocks) + len(states) + len(scanned),
        )
        outputs = iter(loop.outputs)
        tensors = {}
        for i in blocks:
            axis = self.plans[i].axis
            tensors[i] = builder.op("ConcatFromSequence", [next(outputs)], {"axis": axis})
        sequences = {i: next(outputs) for i in states}
        tensors |= {i: next(outputs) for i in scanned}
        for i, value in sequences.items():
            self._type(value, i, Form.INSERTION)
        return _Block(tensors, {i: next(outputs) for i in blocks}, sequences)


@dataclasses.dataclass(frozen=True)
class _Block:
    """What the Loop over one block gives for each output.

    That is the tensor of the block, the lengths of its samples, and the sequences carried on.
    """

    tensors: dict[int, ir.Value]
    lengths: dict[int, ir.Value]
    sequences: dict[int, ir.Value]
