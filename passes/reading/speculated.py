"""Nodes of a branch that a map runs in all iterations: they must not fail where none ran them."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.batching.table import NEWEST
from passes.decisions import Code
from passes.reading.facts import LoopFacts
from passes.reading.nodes import is_same_work
from passes.reading.not_a_map import SpeculationError
from passes.reading.within import reads_within
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
        if runs_anywhere(node, proven, NEWEST) or reads_within(node, self._facts):
            return True
        if copy is not None and copy.graph is not None and runs_anywhere(copy, proven, NEWEST):
            return True
        return any(is_same_work(node, other) for other in self._body)
