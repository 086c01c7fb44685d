"""Writes a Loop over blocks of samples, for samples that differ along one axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.graph.builder import Builder, tensor_value
from passes.loops.forms import Form
from passes.loops.writer import (
    LoopWriter,
    empty_sequence,
    go_on,
    insert,
    sequence_of_nothing,
    sequence_value,
)

__all__ = ["BlockLoopWriter"]

BLOCK = 128
"""Samples in a block: inserting costs some 33 ns times half of it for each sample."""

_INT64 = ir.DataType.INT64
_BOOL = ir.DataType.BOOL


@dataclasses.dataclass(frozen=True)
class _Block:
    """The results of the Loop over one block, for each output.

    That is the tensor of the block, the lengths of its samples, and the sequences carried on.
    """

    tensors: dict[int, ir.Value]
    lengths: dict[int, ir.Value]
    sequences: dict[int, ir.Value]


class BlockLoopWriter(LoopWriter):
    """Writes a Loop over blocks of samples around a Loop over the samples of a block."""

    def write(self, builder: Builder, count: ir.Value) -> dict[int, Batched]:
        """Record a Loop over blocks of samples around a Loop over the samples of a block."""
        blocks = self.with_form(Form.BLOCKS)
        scanned = self.with_form(Form.SCAN_OUTPUT)
        inserted = self.with_form(Form.INSERTION)
        tensors = [*blocks, *scanned]
        number, step = _cut(builder, count)
        block_index = tensor_value("block", _INT64, [])
        condition = tensor_value("cond_block", _BOOL, [])
        whole = {i: sequence_value("blocks", self.plans[i].dtype) for i in tensors}
        lengths = {i: sequence_value("block_lengths", _INT64) for i in blocks}
        states = {i: sequence_value("collected", self.plans[i].dtype) for i in inserted}
        first = {i: self._first_element(builder, i, count) for i in blocks}

        def write(inner: Builder) -> list[ir.Value]:
            start = inner.op("Mul", [block_index, step])
            left = inner.op("Sub", [count, start])
            size = inner.op("Min", [left, inner.scalar(BLOCK)])
            part = self._write_block(inner, start, size, first, states)
            return [
                go_on(inner, condition),
                *(insert(inner, whole[i], part.tensors[i]) for i in tensors),
                *(insert(inner, lengths[i], part.lengths[i]) for i in blocks),
                *(part.sequences[i] for i in inserted),
            ]

        inputs = [block_index, condition, *whole.values(), *lengths.values(), *states.values()]
        body = builder.subgraph("blocks", inputs, write)
        loop = builder.node(
            "Loop",
            [
                number,
                builder.flag(True),
                *(first[i] for i in blocks),
                *(empty_sequence(builder, self.plans[i].dtype) for i in scanned),
                *(empty_sequence(builder, _INT64) for _ in blocks),
                *(empty_sequence(builder, self.plans[i].dtype) for i in inserted),
            ],
            {"body": body},
            outputs=len(inputs) - 2,
        )
        return self._hold(builder, iter(loop.outputs))

    def _hold(self, builder: Builder, outputs: Iterator[ir.Value]) -> dict[int, Batched]:
        """Join what the blocks gave, and say how each output of the map is held."""
        blocks = self.with_form(Form.BLOCKS)
        held = {}
        for i in [*blocks, *self.with_form(Form.SCAN_OUTPUT)]:
            plan = self.plans[i]
            axis = plan.axis if plan.form is Form.BLOCKS else 0
            value = builder.op("ConcatFromSequence", [next(outputs)], {"axis": axis})
            self.set_type(value, i, plan.form)
            held[i] = plan.collected(value)
        for i in blocks:
            sizes = builder.op("ConcatFromSequence", [next(outputs)], {"axis": 0})
            held[i] = self.plans[i].collected(held[i].value, Lengths(builder, sizes))
        for i in self.with_form(Form.INSERTION):
            value = next(outputs)
            self.set_type(value, i, Form.INSERTION)
            held[i] = self.plans[i].collected(value)
        return held

    def _first_element(self, builder: Builder, output: int, count: ir.Value) -> ir.Value:
        """Return the sequence that all of it and each block start with, so that none has a shape.

        It holds an element of length 0 along the axis. Where another dimension is no proven
        number, the element is there only if there are no samples. Where it may differ by sample,
        a concatenation is all that is wanted, and of nothing that is an error.
        """
        plan = self.plans[output]
        dims = None if plan.dims is None else list(plan.dims)
        if dims is None or plan.dtype is None:
            return empty_sequence(builder, plan.dtype)
        dims[plan.axis] = 0
        if None in dims:
            return empty_sequence(builder, plan.dtype)
        shape = [d if isinstance(d, int) else 0 for d in dims]
        dtype = plan.dtype

        def write_element(inner: Builder) -> list[ir.Value]:
            return [sequence_of_nothing(inner, dtype, shape)]

        if shape == dims and not plan.declared_axes:
            return write_element(builder)[0]
        branches = {
            "then_branch": builder.subgraph("none", [], write_element),
            "else_branch": builder.subgraph(
                "some", [], lambda inner: [empty_sequence(inner, dtype)]
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
        blocks = self.with_form(Form.BLOCKS)
        scanned = self.with_form(Form.SCAN_OUTPUT)
        index, condition = tensor_value("i", _INT64, []), tensor_value("cond", _BOOL, [])
        short = {i: sequence_value("block", self.plans[i].dtype) for i in blocks}
        carried = {i: sequence_value("collected", self.plans[i].dtype) for i in states}

        def write(inner: Builder) -> list[ir.Value]:
            outputs = self.apply_body(inner, inner.op("Add", [start, index]))
            return [
                go_on(inner, condition),
                *(insert(inner, short[i], outputs[i]) for i in blocks),
                *(insert(inner, carried[i], outputs[i]) for i in states),
                *(self.scan_output(inner, outputs[i], self.plans[i]) for i in scanned),
                *(_length(inner, outputs[i], self.plans[i].axis) for i in blocks),
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
            self.set_type(value, i, Form.INSERTION)
        return _Block(tensors, {i: next(outputs) for i in blocks}, sequences)


def _cut(builder: Builder, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the number of blocks, and that of samples from one block to the next.

    Without samples there is one block of none, so that the shapes come out right. Where there is
    one block only, it may be shorter.
    """
    end = builder.op("Max", [count, builder.scalar(1)])
    starts = builder.op("Range", [builder.scalar(0), end, builder.scalar(BLOCK)])
    return builder.op("Size", [starts]), builder.op("Min", [end, builder.scalar(BLOCK)])


def _length(builder: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Return the size of a value along an axis, a scalar."""
    shape = builder.op("Shape", [value])
    length = builder.op("Gather", [shape, builder.scalar(axis)], {"axis": 0})
    length.type, length.shape = ir.TensorType(_INT64), ir.Shape([])
    return length
