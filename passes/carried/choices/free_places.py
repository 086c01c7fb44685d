"""Places that stay as they are once they are taken: ``s = v_i where s == c and m_i else s``.

For the free number 0, ``[0, 0, 7]`` and the values 1 where ``[1, 0, 1]``, then 2 where
``[1, 1, 1]``, make ``[1, 2, 7]``. A value that is the free number itself takes no place.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.carried.common.selections import find_selection
from passes.carried.joined import Joined
from passes.carried.pattern import FLOATS, Pattern, Term, added, dependent_values
from passes.carried.totals.filled import expanded
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operands, skip_identities
from passes.reading.iterations import Carried, Iteration
from passes.typing.value_types import Typing

__all__ = ["FreePlaces", "find_free_places"]


@dataclasses.dataclass(frozen=True)
class FreePlaces(Pattern):
    """A carried tensor whose free places each take the first value that comes.

    Attributes:
        terms: The values of an iteration, and the flags of the places that it may take.
        free: What a free place holds.
        dtype: The element type.
        is_dear: Whether places are many: the values of all iterations are larger than a cache.
    """

    free: int | float
    dtype: ir.DataType
    is_dear: bool = False
    name = "free places taken once"
    keeps_shape = "by its terms"

    def write(self, joined: Joined) -> ir.Value:
        """Record what each place holds behind the last iteration."""
        self.check_shape(joined)
        builder, initial = joined.builder, self.carried.initial
        free = builder.constant(np.array(self.free, self.dtype.numpy()))
        at = self._first(joined, free)
        if joined.types[0].dims == ():
            rows = builder.op("Concat", [joined.values[0], self._row(builder, free)], {"axis": 0})
            taken = builder.op("Gather", [rows, at], {"axis": 0})
        else:
            rows = expanded(joined, self.carried, 0, joined.rank(self.carried.initial))
            rows = builder.op("Concat", [rows, self._row(builder, initial)], {"axis": 0})
            at = self._row(builder, at)
            taken = builder.op("GatherElements", [rows, at], {"axis": 0})
            taken = builder.op("Squeeze", [taken, builder.ints(0)])
        return builder.op("Where", [builder.op("Equal", [initial, free]), taken, initial])

    def _first(self, joined: Joined, free: ir.Value) -> ir.Value:
        """Record for each place the first iteration that may take it, or how many there are."""
        builder, initial = joined.builder, self.carried.initial
        flags = builder.op("Not", [builder.op("Equal", [joined.values[0], free])])
        rank, dims = joined.rank(self.carried.initial), joined.types[0].dims
        assert dims is not None
        axes = range(1, 1 + rank - len(dims))
        flags = builder.op("Unsqueeze", [flags, builder.ints(*axes)]) if axes else flags
        if len(self.terms) > 1:
            flags = builder.op("And", [flags, expanded(joined, self.carried, 1, rank)])
        shape = builder.op("Shape", [self._row(builder, initial)])
        last = builder.op("Expand", [builder.constant(np.array(True)), shape])
        number = builder.shape(flags, 0, 1)
        shape = builder.op("Concat", [number, builder.op("Shape", [initial])], {"axis": 0})
        flags = builder.op("Expand", [flags, shape])
        marks = builder.op("Concat", [flags, last], {"axis": 0})
        # The first is the largest of numbers that count down, which runtimes find faster.
        count = builder.op(
            "Add", [builder.op("Squeeze", [number, builder.ints(0)]), builder.scalar(1)]
        )
        down = builder.op("Range", [count, builder.scalar(0), builder.scalar(-1)])
        down = builder.op("Cast", [down], {"to": int(ir.DataType.INT32)})
        if rank:
            down = builder.op("Unsqueeze", [down, builder.ints(*range(1, 1 + rank))])
        numbers = builder.op("Cast", [marks], {"to": int(ir.DataType.INT32)})
        largest = joined.reduce("ReduceMax", builder.op("Mul", [numbers, down]))
        largest = builder.op("Cast", [largest], {"to": int(ir.DataType.INT64)})
        return builder.op("Sub", [count, largest])

    def _row(self, builder: Builder, value: ir.Value) -> ir.Value:
        return builder.op("Unsqueeze", [value, builder.ints(0)])


def find_free_places(carried: Carried, iteration: Iteration, typing: Typing) -> FreePlaces | None:
    """Return what the free places of a carried tensor take, None if it is anything else."""
    body = iteration.body
    dtype = typing.dtype(carried.initial)
    selection = find_selection(carried.next, body)
    if (
        dtype is None
        or selection is None
        or selection.is_whole
        or selection.other is not carried.inner
    ):
        return None
    dependent = dependent_values(body, carried.inner)
    asked: list[ir.Value] = []
    flags: list[ir.Value] = []
    for part in _parts(selection.condition, body, typing):
        (asked if part in dependent else flags).append(part)
    free = _compared(asked[0], carried.inner, body) if len(asked) == 1 else None
    if free is None or selection.chosen in dependent or (dtype in FLOATS and not free):
        return None  # a zero may have either sign
    nodes: list[ir.Node] = []
    while len(flags) > 1:
        nodes.append(added("And", [flags.pop(), flags.pop()]))
        flags.append(nodes[-1].outputs[0])
    terms = tuple(map(Term, (selection.chosen, *flags)))
    is_small = (typing.rank(carried.initial) or 0) < 2
    return FreePlaces(carried, terms, free, dtype, not is_small, nodes=tuple(nodes))


def _parts(condition: ir.Value, body: ir.Graph, typing: Typing) -> list[ir.Value]:
    """Return the booleans that all have to be true for a condition to be."""
    value = skip_identities(condition)
    node = made_by(value, "And", "Cast", body=body)
    if node is None:
        return [value]
    if node.op_type == "Cast":
        whole = operands(node)[0]
        is_same = {typing.dtype(whole), typing.dtype(value)} == {ir.DataType.BOOL}
        return _parts(whole, body, typing) if is_same else [value]
    return [part for v in operands(node) for part in _parts(v, body, typing)]


def _compared(flag: ir.Value, inner: ir.Value, body: ir.Graph) -> int | float | None:
    """Return the number that a carried tensor is compared with, None if it is none."""
    node = made_by(flag, "Equal", body=body)
    sides = [] if node is None else [skip_identities(v) for v in operands(node)]
    others = [v for v in sides if v is not inner]
    array = constant_value(others[0]) if len(others) == 1 else None
    return array.item() if array is not None and array.ndim == 0 else None
