"""What a pattern is written from: its terms of all iterations; and what it proves of shapes.

A term ``[4]`` of five iterations is stacked as ``[5, 4]``. A pattern that takes it for the carried
value relies on its shape: of no iterations at all nothing else tells that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import onnx_ir as ir

from passes.decisions import Code
from passes.graph.builder import Builder
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.reading.trip_count import TripCount
from passes.typing.value_types import Typing, ValueType

__all__ = ["Joined", "covers", "same_dims", "unknown_rank", "unproven_shape"]


@dataclasses.dataclass(frozen=True)
class Joined:
    """What a pattern is written from.

    Attributes:
        builder: Writes the graph around the map.
        values: For each term the tensor that joins the values of all iterations.
        types: For each term what is proven of the value of one iteration.
        typing: The proven typing of the graph around the map.
        trips: The number of iterations.
        opset: Version of ONNX's operators.
        branches: Whether the target has If.
        loops: Whether it has Loop.
        is_collected: Whether the values of all iterations are wanted, too.
        weighs_cost: Whether what would be slower than the Loop is refused.
        is_inside: Whether the Loop stands in a body or a branch.
        made: What is recorded once, though several results of one Loop are read from it.
    """

    builder: Builder
    values: Sequence[ir.Value]
    types: Sequence[ValueType]
    typing: Typing
    trips: TripCount
    opset: int
    branches: bool = True
    loops: bool = True
    is_collected: bool = False
    weighs_cost: bool = False
    is_inside: bool = False
    made: dict[Hashable, ir.Value] = dataclasses.field(default_factory=dict)

    def once(self, key: Hashable, write: Callable[[], ir.Value]) -> ir.Value:
        """Return what was recorded of the same values under a key; record it the first time."""
        key = (key, *self.values)
        if key not in self.made:
            self.made[key] = write()
        return self.made[key]

    @property
    def asks(self) -> bool:
        """Whether a question may choose between operators and a Loop: not for each sample."""
        return self.branches and self.loops and not self.is_inside

    def within(self, builder: Builder) -> Joined:
        """Return the same for what is written in a branch."""
        return dataclasses.replace(self, builder=builder, made={})

    def of_terms(self, start: int, end: int) -> Joined:
        """Return the same of some of the terms alone."""
        return dataclasses.replace(
            self, values=self.values[start:end], types=self.types[start:end]
        )

    def rank(self, value: ir.Value) -> int:
        """Return the rank of a value, which is known: no term covers it otherwise."""
        rank = self.typing.rank(value)
        assert rank is not None
        return rank

    def number(self, number: int, dtype: ir.DataType | None, like: ir.Value) -> ir.Value:
        """Record a scalar of an element type; where nothing tells it, that of another value."""
        if dtype is None:
            return self.builder.op("CastLike", [self.builder.scalar(number), like])
        return self.builder.constant(np.array(number, dtype.numpy()))

    def each_like(self, rows: ir.Value, value: ir.Value) -> ir.Value:
        """Record rows, each of them expanded to the shape of a value: ``[n, *shape]``."""
        sizes = [self.builder.shape(rows, 0, 1), self.builder.op("Shape", [value])]
        shape = self.builder.op("Concat", sizes, {"axis": 0})
        return self.builder.op("Expand", [rows, shape])

    def last_of(self, rows: ir.Value) -> ir.Value:
        """Record the last row."""
        return self.builder.op("Gather", [rows, self.builder.scalar(-1)], {"axis": 0})

    def iterations(self, *, is_after: bool) -> ir.Value:
        """Record how many iterations ran before each one, or with ``is_after`` behind each one.

        Of three iterations these are ``[0, 1, 2]``, or ``[1, 2, 3]``.
        """
        builder, one = self.builder, self.builder.scalar(1)
        count = builder.op("Squeeze", [self.trips.write(builder)])
        if not is_after:
            return builder.arange(count)
        return builder.op("Range", [one, builder.op("Add", [count, one]), one])

    @property
    def runs(self) -> bool:
        """Whether there is at least one iteration by proof."""
        return bool(self.trips.static)

    def reduce(self, op_type: str, rows: ir.Value) -> ir.Value:
        """Record a reduction over axis 0, which is left out."""
        return self.builder.op(op_type, [rows, self.builder.ints(0)], {"keepdims": 0})

    def needs_shape(self, at: int, carried: Carried, *, always: bool = False) -> None:
        """Check that what is joined to a carried value leaves its shape as it is.

        Args:
            at: Which term is joined to it.
            carried: The carried value.
            always: Check it even where there is at least one iteration by proof.

        Raises:
            NotAMapError: An iteration may change the shape, which no iteration at all does not.
        """
        is_open = always or not self.runs
        if is_open and not covers(self.typing, carried.initial, self.types[at].dims):
            raise unproven_shape(carried, ", so that zero iterations may yield another one")

    def needs_same_shape(self, carried: Carried) -> None:
        """Check that the first term has the shape of the value that it takes the place of.

        Raises:
            NotAMapError: That is not proven.
        """
        if not same_dims(self.typing, carried.initial, self.types[0].dims):
            raise unproven_shape(carried)


def covers(typing: Typing, whole: ir.Value, dims: Sequence[int | str | None] | None) -> bool:
    """Whether a tensor to which one of some dimensions is broadcast keeps its shape, by proof."""
    around = typing.dims(whole)
    if around is None or dims is None or len(dims) > len(around):
        return False
    pairs = zip(reversed(dims), reversed(around), strict=False)
    return all(own == 1 or (own == other and typing.is_same_number(own)) for own, other in pairs)


def same_dims(
    typing: Typing,
    one: ir.Value,
    dims: Sequence[int | str | None] | None,
    beside: int | None = None,
) -> bool:
    """Whether a tensor has some dimensions by proof; ``beside`` is an axis that is left out."""
    around = typing.dims(one)
    if around is None or dims is None or len(dims) != len(around):
        return False
    pairs = [pair for i, pair in enumerate(zip(around, dims, strict=True)) if i != beside]
    return all(a == b and typing.is_same_number(a) for a, b in pairs)


def unknown_rank(carried: Carried) -> NotAMapError:
    """Return the error for a carried value whose rank, or that of what it takes, is not known."""
    detail = f"nothing tells the rank of '{carried.inner.name}'"
    return NotAMapError(Code.UNKNOWN_RANK, detail, carried.next.producer())


def unproven_shape(
    carried: Carried, effect: str = "", node: ir.Node | None = None
) -> NotAMapError:
    """Return the error for a carried value that is not proven to keep its shape.

    Args:
        carried: The carried value.
        effect: What may follow from it.
        node: The node to blame; by default the one that computes the next value.
    """
    detail = f"'{carried.inner.name}' is not proven to keep its shape{effect}"
    return NotAMapError(Code.UNKNOWN_SHAPE, detail, node or carried.next.producer())
