"""Writes the weights of a recurrent operator, in front of it.

A cell names its weights by parts of the matrices that its body has: ``h @ w[:, 4:8]`` is the gate
whose rows of ``R`` are ``w[:, 4:8]`` turned. Runtimes fold what is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.cells.cell_sums import Bias, NotACellError, Weight
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operands
from passes.graph.node_copies import copy_of
from passes.reading.facts import LoopFacts
from passes.reading.nodes import copy_into

__all__ = ["Affine", "WeightWriter", "check_moves"]

_MOVED = frozenset(
    {"Cast", "Concat", "Constant", "Expand", "Gather", "Identity", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Transpose", "Unsqueeze"}
)
"""What a body may make of weights."""


@dataclasses.dataclass(frozen=True)
class Affine:
    """What a gate is computed of; each part times a number.

    Attributes:
        rows: What each iteration reads, and its matrices.
        hidden: The matrices of the state.
        bias: Vectors that are added; None for a number that is added to each element.
        hidden_bias: Those that are added to the product of the state alone.
        peephole: Vectors by which the kept state of an LSTM is multiplied.
    """

    rows: tuple[tuple[ir.Value, Weight, float], ...]
    hidden: tuple[tuple[Weight, float], ...]
    bias: tuple[tuple[Bias | None, float], ...]
    hidden_bias: tuple[tuple[Bias | None, float], ...] = ()
    peephole: tuple[tuple[Bias, float], ...] = ()

    def turned(self) -> Affine:
        """Return the same times -1."""
        return Affine(
            tuple((row, weight, -n) for row, weight, n in self.rows),
            tuple((weight, -n) for weight, n in self.hidden),
            tuple((bias, -n) for bias, n in self.bias),
            tuple((bias, -n) for bias, n in self.hidden_bias),
            tuple((bias, -n) for bias, n in self.peephole),
        )


def check_moves(value: ir.Value, facts: LoopFacts) -> None:
    """Check that what is the same in all iterations can be computed in front of them.

    Raises:
        NotACellError: It cannot.
    """
    pending = [value]
    while pending:
        one = facts.evaluator.outside(pending.pop())
        if one not in facts.inside:
            continue
        if not is_operator(node := one.producer(), _MOVED):
            raise NotACellError
        pending += operands(node)


class WeightWriter:
    """Records weights outside of a Loop.

    Attributes:
        builder: Writes the graph around the Loop.
        width: How many elements the state has.
    """

    def __init__(self, builder: Builder, facts: LoopFacts, width: int) -> None:
        self.builder, self.width = builder, width
        self._facts = facts
        self._made: dict[ir.Value, ir.Value | None] = {}
        self._flat: dict[ir.Value, ir.Value] = {}
        self._turned: dict[tuple[ir.Value, bool], ir.Value] = {}

    def of_rows(self, gates: Sequence[Affine], rows: Sequence[ir.Value]) -> ir.Value:
        """Record ``W``: of the gates, for the rows that each iteration reads, side by side."""
        return self._stacked(
            [
                self._beside(
                    self._matrix([(w, n) for own, w, n in gate.rows if own is row]) for row in rows
                )
                for gate in gates
            ]
        )

    def of_state(self, gates: Sequence[Affine]) -> ir.Value:
        """Record ``R``."""
        return self._stacked([self._matrix(gate.hidden) for gate in gates])

    def of_biases(self, gates: Sequence[Affine]) -> ir.Value | None:
        """Record ``B``, None where there is none."""
        given = [*(gate.bias for gate in gates), *(gate.hidden_bias for gate in gates)]
        return self._stacked(list(map(self._vector, given))) if any(given) else None

    def of_peepholes(self, gates: Sequence[Affine]) -> ir.Value | None:
        """Record ``P`` of an LSTM, None where no gate reads the kept state."""
        given = [gate.peephole for gate in gates]
        return self._stacked(list(map(self._vector, given[:3]))) if any(given) else None

    def _stacked(self, gates: Sequence[ir.Value]) -> ir.Value:
        whole = gates[0] if len(gates) == 1 else self.builder.op("Concat", gates, {"axis": 0})
        return self.builder.op("Unsqueeze", [whole, self.builder.ints(0)])

    def _beside(self, parts: Iterable[ir.Value]) -> ir.Value:
        made = list(parts)
        return made[0] if len(made) == 1 else self.builder.op("Concat", made, {"axis": 1})

    def _matrix(self, parts: Sequence[tuple[Weight, float]]) -> ir.Value:
        """Record the sum of some matrices; each of its rows gives one element of the state."""
        return self._sum([(self._part(weight), number) for weight, number in parts])

    def _part(self, weight: Weight) -> ir.Value:
        builder, key = self.builder, (weight.value, weight.is_turned)
        if key not in self._turned:
            whole = self.outside(weight.value)
            if not weight.is_turned:
                whole = builder.op("Transpose", [whole], {"perm": [1, 0]})
            self._turned[key] = whole
        (start, stop), (first, last) = weight.columns, weight.rows
        bounds = [(start, first), (stop, last), (0, 1)]
        return builder.op("Slice", [self._turned[key], *(builder.ints(*b) for b in bounds)])

    def _vector(self, parts: Sequence[tuple[Bias | None, float]]) -> ir.Value:
        """Record the sum of some vectors and numbers."""
        numbers = sum(number for bias, number in parts if bias is None)
        vectors = [(self._columns(bias), number) for bias, number in parts if bias is not None]
        if numbers or not vectors:
            whole = self.builder.constant(np.full(self.width, numbers, np.float32))
            vectors.append((whole, 1.0))
        return self._sum(vectors)

    def _columns(self, bias: Bias) -> ir.Value:
        if bias.value not in self._flat:
            whole = self.outside(bias.value)
            self._flat[bias.value] = self.builder.op("Reshape", [whole, self.builder.ints(-1)])
        flat = self._flat[bias.value]
        bounds = [self.builder.ints(n) for n in (*bias.columns, 0)]
        return self.builder.op("Slice", [flat, *bounds])

    def _sum(self, parts: Sequence[tuple[ir.Value, float]]) -> ir.Value:
        total: ir.Value | None = None
        for value, number in parts:
            own = value
            if number != 1.0:
                scale = self.builder.constant(np.array(number, np.float32))
                own = self.builder.op("Mul", [value, scale])
            total = own if total is None else self.builder.op("Add", [total, own])
        assert total is not None
        return total

    def outside(self, value: ir.Value) -> ir.Value:
        """Return outside of the body what is the same in all iterations."""
        value = self._facts.evaluator.outside(value)
        is_own = value.is_initializer() and value.graph is self._facts.iteration.body
        if value not in self._facts.inside and not is_own:
            return value
        if value not in self._made:
            if is_own:
                assert value.const_value is not None
                self._made[value] = self.builder.constant(value.const_value.numpy())
            else:
                node = value.producer()
                assert node is not None
                self._made |= {v: self.outside(v) for v in operands(node)}
                copy_into(self.builder, node, self._made, self._facts.evaluator)
        return copy_of(self._made, value)
