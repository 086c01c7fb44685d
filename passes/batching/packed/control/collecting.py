"""A Loop whose iterations may each output a different number of rows; the rows are joined.

onnxruntime copies a sequence when something is inserted. Steps are therefore collected in blocks,
and blocks in another sequence: the time grows with the number of steps, not with its square.

Of 100 steps the first 64 are joined to one tensor, the other 36 to another, and then these two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.graph.builder import BATCHED_KEY, Builder, tensor_value

__all__ = ["Collecting", "Number", "collect"]

_BLOCK = 64
"""Steps of a block."""

_Written = tuple[list[ir.Value], list[ir.Value]]


class Number:
    """The number of a step: of its block, and its place in that."""

    def __init__(self) -> None:
        self.block = tensor_value("block", ir.DataType.INT64, [])
        self.place = tensor_value("place", ir.DataType.INT64, [])

    def record(self, builder: Builder) -> ir.Value:
        """Record the number, int64 ``[]``."""
        first = builder.op("Mul", [self.block, builder.scalar(_BLOCK)])
        return builder.op("Add", [first, self.place])


@dataclasses.dataclass(frozen=True)
class Collecting:
    """What the loop does.

    Attributes:
        trips: Number of steps, int64 ``[]``, None where what is carried says when they end.
        number: The number of a step.
        inputs: What is carried, as a step has it.
        step: Records a step; returns what is carried on, and what is collected of it.
        goes_on: Records whether there is a further step, by what is carried.
    """

    trips: ir.Value | None
    number: Number
    inputs: Sequence[ir.Value]
    step: Callable[[Builder], _Written]
    goes_on: Callable[[Builder, Sequence[ir.Value]], ir.Value]


def collect(
    builder: Builder,
    loop: Collecting,
    carried: Sequence[ir.Value],
    collected: Sequence[ir.Value],
    dtypes: Sequence[ir.DataType],
) -> list[ir.Value]:
    """Record the loop.

    Args:
        builder: Where it goes.
        loop: What it does.
        carried: What is carried at first.
        collected: What is there before the first step.
        dtypes: The element types of what is collected.

    Returns:
        Each value that was collected, one step behind the other.
    """

    def write_block(outer: Builder) -> Sequence[ir.Value]:
        steps = outer.subgraph(
            "steps",
            [loop.number.place, _condition(), *loop.inputs, *sequences],
            lambda inner: _handed_on(inner, loop, loop.step(inner), sequences),
        )
        number = outer.scalar(_BLOCK)
        if loop.trips is not None:
            done = outer.op("Mul", [loop.number.block, number])
            number = outer.op("Min", [number, outer.op("Sub", [loop.trips, done])])
        none = [outer.op("SequenceEmpty", [], {"dtype": dtype}) for dtype in dtypes]
        values = _loop(outer, steps, number, outer.flag(True), [*states, *none])
        kept, parts = values[: len(states)], values[len(states) :]
        rows = [outer.op("ConcatFromSequence", [part], {"axis": 0}) for part in parts]
        for value, state in zip(kept, states, strict=True):
            value.type, value.shape = state.type, state.shape
        return _handed_on(outer, loop, (kept, rows), blocks)

    sequences, blocks = ([_sequence(dtype) for dtype in dtypes] for _ in range(2))
    states = [ir.Value(name=v.name, type=v.type, shape=v.shape) for v in loop.inputs]
    graph = builder.subgraph(
        "blocks", [loop.number.block, _condition(), *states, *blocks], write_block
    )
    trips = None
    if loop.trips is not None:
        more = builder.op("Add", [loop.trips, builder.scalar(_BLOCK - 1)])
        trips = builder.op("Div", [more, builder.scalar(_BLOCK)])
    begun = [builder.op("SequenceConstruct", [value]) for value in collected]
    values = _loop(builder, graph, trips, loop.goes_on(builder, carried), [*carried, *begun])
    return [
        builder.op("ConcatFromSequence", [value], {"axis": 0}) for value in values[len(carried) :]
    ]


def _loop(
    builder: Builder,
    graph: ir.Graph,
    trips: ir.Value | None,
    condition: ir.Value,
    carried: Sequence[ir.Value],
) -> list[ir.Value]:
    inputs = [trips, condition, *carried]
    node = builder.node("Loop", inputs, {"body": graph}, outputs=len(carried))
    node.metadata_props[BATCHED_KEY] = builder.origin
    return list(node.outputs)


def _handed_on(
    builder: Builder, loop: Collecting, written: _Written, sequences: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return the outputs of a graph: whether it goes on, what is carried and what collected."""
    carried, collected = written
    goes_on = loop.goes_on(builder, carried)
    goes_on.type, goes_on.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
    grown = [
        builder.op("SequenceInsert", [sequence, value])
        for sequence, value in zip(sequences, collected, strict=True)
    ]
    for value, sequence in zip(grown, sequences, strict=True):
        value.type = sequence.type
    return [goes_on, *carried, *grown]


def _condition() -> ir.Value:
    return tensor_value("go", ir.DataType.BOOL, [])


def _sequence(dtype: ir.DataType) -> ir.Value:
    return ir.Value(name="collected", type=ir.SequenceType(ir.TensorType(dtype)))
