"""Carried values that every second iteration gives back: ``s = -s``, ``s = c - s``, ``not s``.

The value of an iteration is one of two, by whether its number is even. Of floats ``c - s`` rounds
at first: ``s = .1`` becomes ``1 - .1``, and 1 less that is not ``.1`` any more. From the third
value on they repeat, so that four are told apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.joined import Joined, covers, unproven_shape
from passes.carried.pattern import FLOATS, NumberedPattern
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value
from passes.graph.made import made_by, operand, operands, skip_identities
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.reading.nodes import by_type
from passes.typing.value_types import Typing

__all__ = ["Alternation", "find_alternation"]

_SIGNED = frozenset({"Neg", "Add", "Sub"})
_BITWISE = frozenset({"Not", "Xor", "BitwiseNot", "BitwiseXor"})


@dataclasses.dataclass(frozen=True)
class Alternation(NumberedPattern):
    """A carried value of two that take turns.

    Attributes:
        terms: None: no iteration computes any of it.
        changes: The nodes that make one value of the other, in order, each with the operand that
            is the value.
        outer: What else they read, outside of the loop.
        rounds: Whether the first two values may not come back.
    """

    changes: tuple[tuple[ir.Node, int], ...]
    outer: dict[ir.Value, ir.Value]
    rounds: bool
    name = "carried alternation"
    needs_sizes = False

    def check_shape(self, joined: Joined) -> None:
        """It is the same in all iterations."""
        self._check(joined.typing)

    def at(self, joined: Joined, numbers: ir.Value) -> ir.Value:
        """Record the values at the start of some iterations."""
        self._check(joined.typing)
        builder, inner = joined.builder, self.carried.inner
        table = joined.once((inner, "values"), lambda: self._values(builder))
        places = builder.op("Mod", [numbers, builder.scalar(2)])
        if self.rounds:
            later = builder.op("Add", [places, builder.scalar(2)])
            places = builder.op("Min", [numbers, later])
        return builder.op("Gather", [table, places], {"axis": 0})

    def _values(self, builder: Builder) -> ir.Value:
        values = [self.carried.initial]
        for _ in range(3 if self.rounds else 1):
            values.append(self._changed(builder, values[-1]))
        rows = [builder.op("Unsqueeze", [value, builder.ints(0)]) for value in values]
        return builder.op("Concat", rows, {"axis": 0})

    def _changed(self, builder: Builder, value: ir.Value) -> ir.Value:
        for node, at in self.changes:
            inputs = [
                value if i == at else self._outside(builder, v)
                for i, v in enumerate(operands(node))
            ]
            value = builder.op(node.op_type, inputs, node.attributes)
        return value

    def _outside(self, builder: Builder, value: ir.Value) -> ir.Value:
        array = constant_value(self.outer[value])
        return self.outer[value] if array is None else builder.constant(array)

    def _check(self, typing: Typing) -> None:
        """Check that no operand changes the shape.

        Raises:
            NotAMapError: That is not proven.
        """
        initial = self.carried.initial
        for node, at in self.changes:
            others = [v for i, v in enumerate(operands(node)) if i != at]
            if not all(covers(typing, initial, typing.dims(self.outer[v])) for v in others):
                raise unproven_shape(self.carried, node=node)


def find_alternation(carried: Carried, facts: LoopFacts, typing: Typing) -> Alternation | None:
    """Return the two values that a carried value has in turn, None for any other."""
    changes: list[tuple[ir.Node, int]] = []
    outer: dict[ir.Value, ir.Value] = {}
    value = skip_identities(carried.next)
    while value is not carried.inner:
        node = made_by(value, *_SIGNED, *_BITWISE, body=facts.iteration.body)
        path = None if node is None else _path(node, facts, outer)
        if node is None or path is None:
            return None
        changes.insert(0, (node, path))
        value = skip_identities(operand(node, path))
    if not _comes_back(changes):
        return None
    is_sign = all(node.op_type == "Neg" for node, _ in changes)
    rounds = typing.dtype(carried.initial) in FLOATS | {None} and not is_sign
    return Alternation(carried, (), tuple(changes), outer, rounds)


def _path(node: ir.Node, facts: LoopFacts, outer: dict[ir.Value, ir.Value]) -> int | None:
    """Return which operand of a node may depend on the carried value; enter the others."""
    open_ = []
    for at, value in enumerate(operands(node)):
        outside = facts.evaluator.outside(skip_identities(_uncast(value, facts)))
        if constant_value(outside) is not None or outside not in facts.inside:
            outer[value] = outside
        else:
            open_.append(at)
    return open_[0] if len(open_) == 1 else None


def _uncast(value: ir.Value, facts: LoopFacts) -> ir.Value:
    """Return the constant that a CastLike casts to the type that it has, or the value."""
    node = made_by(value, "CastLike")
    cast = None if node is None else by_type(node, facts.evaluator)
    array = None if cast is None else constant_value(cast[0])
    if cast is None or array is None or ir.DataType.from_numpy(array.dtype) != cast[1]:
        return value
    return cast[0]


def _comes_back(changes: Sequence[tuple[ir.Node, int]]) -> bool:
    """Whether a value is itself again when it was changed twice."""
    kinds = {node.op_type for node, _ in changes}
    if kinds <= _BITWISE:
        return bool(changes)
    turns = sum(
        node.op_type == "Neg" or (node.op_type == "Sub" and at == 1) for node, at in changes
    )
    return kinds <= _SIGNED and turns % 2 == 1
