"""Nodes of a branch that a map runs in all iterations: they must not fail where none ran them."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.batching.table import NEWEST
from passes.decisions import Code
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import bounds_of
from passes.reading.facts import LoopFacts
from passes.reading.nodes import is_same_work
from passes.reading.not_a_map import SpeculationError
from passes.typing.needed_places import may_lack_place
from passes.typing.value_types import Typing

__all__ = ["Speculated"]


class Speculated:
    """The nodes of branches, and their copies in the body of a map.

    A copy may be known to run where its node is not: the row that ``x[i]`` reads has the shape of
    a row of ``x``, which the body of a Loop does not tell.
    """

    def __init__(self, facts: LoopFacts) -> None:
        """Set up the check.

        Args:
            facts: The Loop. For each node that an iteration gains it knows the node of a branch
                that it stands for; what its body runs as it is runs in every iteration.
        """
        self._facts, self._body = facts, facts.iteration.body
        self._given = facts.speculated
        self._copies: dict[ir.Node, ir.Node | None] = {}

    def enter(self, node: ir.Node, copy: ir.Node | None) -> None:
        """Enter the copy of a node, None for a read of an element that may not be there."""
        if node in self._given:
            self._copies[self._given[node]] = copy

    def drop_unread(self) -> None:
        """Let go of copies that no graph holds: nothing reads them."""
        self._copies = {
            node: copy
            for node, copy in self._copies.items()
            if copy is None or copy.graph is not None
        }

    def check(self, proven: Typing) -> None:
        """Check that the nodes run whatever an iteration gives them.

        Args:
            proven: Proven typing; it knows the copies.

        Raises:
            SpeculationError: Some may fail.
        """
        failing = [
            node for node, copy in self._copies.items() if not self._runs(node, copy, proven)
        ]
        if failing:
            detail = "it may fail in iterations that do not take its branch"
            raise SpeculationError(Code.CONTROL_FLOW, detail, failing)

    def _runs(self, node: ir.Node, copy: ir.Node | None, proven: Typing) -> bool:
        copy = None if copy is None or copy.graph is None else copy
        # A place that only the copy tells, which a Squeeze behind it needs.
        lacks = copy is not None and may_lack_place(copy, proven)
        if (not lacks and runs_anywhere(node, proven, NEWEST)) or _reads_within(node, self._facts):
            return True
        if copy is not None and runs_anywhere(copy, proven, NEWEST):
            return True
        return any(is_same_work(node, other) for other in self._body)


def _reads_within(node: ir.Node, facts: LoopFacts) -> bool:
    """Whether a node reads a row that every iteration has: ``x[i + 1]`` of ``n - 1`` ones.

    Args:
        node: A node of the body, or of a branch in it.
        facts: The Loop or Scan.
    """
    evaluator, trips = facts.evaluator, facts.iteration.trips
    if trips is None or not is_operator(node, ("Gather", "Slice")):
        return False
    tensor, axis, place = operand(node, 0), node.attributes.get_int("axis", 0), None
    if node.op_type == "Slice":
        bounds = bounds_of(node, evaluator)
        axis, place = (0, None) if bounds is None else (bounds.axis, bounds.start)
    elif evaluator.rank(operand(node, 1)) == 0:
        place = evaluator.number(operand(node, 1))
    count, rank = evaluator.number(trips), evaluator.rank(tensor)
    size = None if rank is None else evaluator.dimension(tensor, axis % rank)
    if place is None or count is None or size is None or place.coefficient(ITERATION) < 0:
        return False
    first, last = (place.replace({ITERATION: at}) for at in (Linear(0), count - 1))
    return is_nonnegative(first) and is_nonnegative(size - 1 - last)
