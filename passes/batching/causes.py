"""Why nodes stay in a loop: the causes of a walk, and the nodes that have to stay with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import onnx_ir as ir

from passes.batching.body_state import BodyState
from passes.batching.layouts import Batched
from passes.decisions import Code, Decline, Reason
from passes.graph.graphs import reads_of
from passes.graph.made import operands

__all__ = ["Causes", "Demotions", "Inherited"]

_BY_SAMPLE = frozenset(
    {
        Code.BATCHED_OPERAND,
        Code.CONTROL_FLOW,
        Code.DATA_DEPENDENT,
        Code.NEVER,
        Code.UNKNOWN_RANK,
        Code.UNKNOWN_SHAPE,
    }
)
"""Said of operands that differ from sample to sample; they might not, were they batched."""

_SHAPE_READERS = frozenset({"Shape", "Size"})


class Inherited(Decline):
    """A node reads a value that is only there sample by sample, and cannot be stacked.

    Attributes:
        value: The value.
    """

    def __init__(self, value: ir.Value, *, differs: bool = False) -> None:
        how = "differs in shape" if differs else "is not proven to have one shape"
        super().__init__(Code.RAGGED, f"it reads '{value.name}', which {how}")
        self.value = value


class Causes:
    """The causes that a walk over a body met.

    Attributes:
        reasons: One for each cause, in the order of the body.
        declined: What the rules of nodes said that stayed in a loop for their own sake.
    """

    def __init__(self, state: BodyState, given: Mapping[ir.Node, Decline]) -> None:
        """Start with none.

        Args:
            state: What the walk knows of the values of the body; it grows with the walk.
            given: What earlier walks declined, see `declined`.
        """
        self.reasons: list[Reason] = []
        self.declined: dict[ir.Node, Decline] = {}
        self._state = state
        self._given = given
        self._of: dict[ir.Value, int] = {}
        self._of_rank: dict[ir.Value, int] = {}
        self._of_numbers: dict[ir.Value, int] = {}

    def keep(self, node: ir.Node, reason: Reason | None) -> None:
        """Enter a node that stays in a loop without being asked.

        Args:
            node: The node.
            reason: Why; None where that is said of what it reads, or of a node behind it.
        """
        if reason is None:
            read = (self._of.get(v) for v in operands(node))
            index = next((i for i in read if i is not None), None)
        else:
            index = self._add(reason)
        if index is not None:
            self._of |= dict.fromkeys(node.outputs, index)

    def decline(self, node: ir.Node, decline: Decline) -> None:
        """Note why a node stays in a loop.

        What only reads a value that an earlier walk batched, and stays here for the node's own
        sake, has the reason that the node gave there. What reads what such a node yields follows
        from it.
        """
        if isinstance(decline, Inherited):
            maker = decline.value.producer()
            earlier = None if maker is None else self._given.get(maker)
            if maker is not None and earlier is not None and decline.value not in self._of:
                self._enter(maker, earlier)
        else:
            self.declined.setdefault(node, decline)
        self._enter(node, self._given.get(node, decline))

    def _enter(self, node: ir.Node, decline: Decline) -> None:
        """Enter a node that declines, as a cause or as one that follows from another."""
        unranked = [v for v in reads_of(node) if self._state.type_of(v).dims is None]
        asked = unranked if decline.code is Code.UNKNOWN_RANK else []
        path, index = self._state.path_of(node), self._known(node, decline, asked)
        if index is None:
            detail = self._with_given_names(decline.detail, node)
            index = self._add(Reason(decline.code, path, node.op_type, detail))
        else:
            known = self.reasons[index]
            self.reasons[index] = dataclasses.replace(known, dependents=(*known.dependents, path))
        if isinstance(decline, Inherited):
            self._of.setdefault(decline.value, index)
        for value in asked:
            self._of_rank.setdefault(value, index)
        self._of |= dict.fromkeys(node.outputs, index)
        is_unknown = isinstance(decline, Inherited) or decline.code is Code.UNKNOWN_RANK
        if is_unknown and node.op_type in _SHAPE_READERS:
            self._of_numbers |= dict.fromkeys(node.outputs, index)

    def _with_given_names(self, detail: str, node: ir.Node) -> str:
        """Return a detail that calls what a node reads as the body does, not the new graph."""
        for value in operands(node):
            detail = detail.replace(f"'{self._state.read(value).value.name}'", f"'{value.name}'")
        return detail

    def pass_on(self, node: ir.Node, apart: Iterable[ir.Value]) -> None:
        """Enter a node with one result for all samples if its operands are the same for all.

        Args:
            node: The node, batched or not.
            apart: What it reads that is not the same for all samples.
        """
        found = {self._of_numbers.get(value) for value in apart}
        if found and None not in found:
            index = min(i for i in found if i is not None)
            self._of_numbers |= dict.fromkeys(node.outputs, index)

    def _known(self, node: ir.Node, decline: Decline, asked: Iterable[ir.Value]) -> int | None:
        """Return the cause that a decline follows from, None if it is one itself."""
        if isinstance(decline, Inherited):
            return self._of.get(decline.value)
        ranks = [index for value in asked if (index := self._of_rank.get(value)) is not None]
        if ranks:
            return min(ranks)
        if decline.code not in _BY_SAMPLE:
            return None
        read = (self._of_numbers.get(v) for v in node.inputs if v is not None)
        return next((i for i in read if i is not None), None)

    def _add(self, reason: Reason) -> int:
        self.reasons.append(reason)
        return len(self.reasons) - 1


class Demotions:
    """The nodes that a walk has to keep when it is walked again.

    Attributes:
        nodes: The nodes, and why, for those whose rounding a discrete node would read.
    """

    def __init__(self, env: Mapping[ir.Value, Batched]) -> None:
        """Start with none.

        Args:
            env: What the walk knows of the values of the body; it grows with the walk.
        """
        self.nodes: dict[ir.Node, Reason | None] = {}
        self._env = env

    def between(self, node: ir.Node, stage: int) -> None:
        """Demote what a node reads of later stages than ``stage``, down to that stage.

        A value that differs in shape is then not carried from one loop to a later one.
        """
        self._trace(node, lambda x: x.stage > stage)

    def rounded(self, node: ir.Node, path_of: Callable[[ir.Node], str]) -> None:
        """Demote all that rounds on the way to a node."""
        for producer in self._trace(node, lambda x: x.rounding):
            detail = f"batching may round it differently, and it feeds {path_of(node)}"
            reason = Reason(Code.EXACT, path_of(producer), producer.op_type, detail)
            self.nodes[producer] = reason

    def _trace(self, node: ir.Node, is_demoted: Callable[[Batched], bool]) -> list[ir.Node]:
        """Demote what yields such values on the way to a node, and return what is new."""
        found = []
        pending = [node]
        while pending:
            for value in reads_of(pending.pop()):
                producer = value.producer()
                if producer is None or value not in self._env or producer in self.nodes:
                    continue
                if is_demoted(self._env[value]):
                    self.nodes[producer] = None
                    pending.append(producer)
                    found.append(producer)
        return found
