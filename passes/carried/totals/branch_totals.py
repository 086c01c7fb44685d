"""Totals that branches in branches join to, and those that Gemm joins products to.

``s = (s + a if f else s) if c else s - b`` adds ``(0 + a if f else 0) if c else 0 - b``: the same
nodes, with what changes no total in the place of ``s``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.common.masks import neutral_value
from passes.carried.common.ones import skip_factors_of_one
from passes.carried.common.selections import BranchReader, find_selection
from passes.carried.pattern import Term, path_through
from passes.carried.totals.reductions import FAMILIES, TYPES, Reduction
from passes.graph.made import made_by, only_number, operand, operands, skip_identities
from passes.graph.node_copies import copy_node, copy_of
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import INTEGERS
from passes.numbers.integers import Linear, StateSymbol
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing

__all__ = ["find_branch_total"]

_FARTHEST = 1 << 20
"""A count that begins farther from 0 may soon be one that a float32 does not hold."""


def find_branch_total(carried: Carried, facts: LoopFacts, typing: Typing) -> Reduction | None:
    """Return what all branches join to a carried value, None if one does anything else."""
    dtype = typing.dtype(carried.initial)
    counter = _counter(carried, facts, typing)
    reader = _TotalReader(carried.inner, facts.iteration.body, counter, typing)
    if dtype is None or not reader.is_total(carried.next) or reader.family is None:
        return None
    if dtype not in TYPES[reader.family]:
        return None
    is_scalar = typing.dims(carried.initial) == ()
    neutral, nodes = neutral_value(carried.inner, reader.family, dtype, is_scalar=is_scalar)
    copies: dict[ir.Value, ir.Value | None] = {carried.inner: neutral}
    for node in reader.path(carried.next):
        nodes.append(copy_node(node, copies))
        for old in node.outputs:
            typing.set(copy_of(copies, old), typing[old])
    if reader.counts_in_floats:
        facts.evaluator.through_floats = True
    delta = Term(copy_of(copies, skip_identities(carried.next)))
    name = (
        f"carried {reader.name} under a condition" if reader.chooses else f"carried {reader.name}"
    )
    return Reduction(carried, (delta,), (1,), reader.family, name, dtype, nodes=tuple(nodes))


def _counter(carried: Carried, facts: LoopFacts, typing: Typing) -> Evaluator | None:
    """Return what follows a carried integer that begins with a small constant; None for others."""
    first = only_number(carried.initial)
    is_integer = typing.dtype(carried.initial) in INTEGERS
    if first is None or not is_integer or abs(first) > _FARTHEST:
        return None
    return Evaluator(
        typing, facts.inside, {carried.inner: (Linear.of(StateSymbol(carried.inner)),)}
    )


class _TotalReader(BranchReader):
    """Reads whether a value is a carried one with others joined to it, in all branches.

    Attributes:
        family: The operator that joins two totals.
        name: What the report calls it.
        chooses: Whether a condition decides what is joined.
        counts_in_floats: Whether constants are added to it that are cast from floats, as
            PaddlePaddle counts.
    """

    def __init__(
        self, inner: ir.Value, body: ir.Graph, counter: Evaluator | None, typing: Typing
    ) -> None:
        super().__init__(inner, body)
        self._typing = typing
        self.family: str | None = None
        self.name = ""
        self.chooses = self.counts_in_floats = False
        self._counter = counter

    def is_total(self, value: ir.Value) -> bool:
        """Whether a value is the carried one, or one that others are joined to."""
        value = skip_factors_of_one(skip_identities(value), self.scope, self._typing)
        if value is self.inner:
            return True
        selection = find_selection(value, self.scope)
        if selection is not None:
            self.chooses = True
            self.enter(selection)
            sides = (selection.chosen, selection.other)
            return selection.condition not in self.dependent and all(map(self.is_total, sides))
        if self._is_counted(value):
            return True
        node = made_by(value, *FAMILIES, "Gemm", body=self.scope)
        read = None if node is None else self._joined_to(node)
        return read is not None and self.is_total(read)

    def _is_counted(self, value: ir.Value) -> bool:
        """Whether a value is the carried integer and a small constant, added in floats."""
        node = made_by(value, "Cast", body=self.scope)
        if node is None or self._counter is None or self.family not in (None, "Add"):
            return False
        number = self._counter.number(value)
        step = None if number is None else (number - Linear.of(StateSymbol(self.inner))).number
        if step is None or abs(step) > 1:
            return False
        self.family, self.name = FAMILIES["Add"]
        self.counts_in_floats = True
        return True

    def path(self, value: ir.Value) -> Sequence[ir.Node]:
        """Return the nodes of the body that depend on the carried value and compute another."""
        needed: set[ir.Node] = set()
        pending = [skip_identities(value)]
        while pending:
            node = pending.pop().producer()
            if node is None or node in needed or node.graph is not self._body:
                continue
            if self.dependent.isdisjoint(node.outputs):
                continue
            needed.add(node)
            pending += operands(node)
        return [node for node in self._body if node in needed]

    def _joined_to(self, node: ir.Node) -> ir.Value | None:
        """Return what a node joins others to, None if the family is another one."""
        path = path_through(node, self.dependent)
        if path is None:
            return None
        family, name = FAMILIES.get(node.op_type, ("Add", "sum of products"))
        if self.family not in (None, family) or (node.op_type == "Sub" and path[0]):
            return None
        if node.op_type == "Gemm" and (
            path[0] != 2 or node.attributes.get_float("beta", 1.0) != 1
        ):
            return None
        self.family, self.name = family, name
        return operand(node, path[0])
