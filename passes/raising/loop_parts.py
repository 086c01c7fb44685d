"""Takes the body of a Loop or Scan apart: what a recurrence needs, and what lies on either side.

For ``h = Tanh(MatMul(x_i, w) + h)`` and ``y_i = MatMul(h, v)`` the first product is computed for
all iterations in front of the Loop, and the second one behind it. The Loop reads rows of the one
and collects its ``h`` for the other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.batching import table
from passes.fusing.heavy_work import work_of
from passes.fusing.measured_costs import (
    COLLECTED,
    COPIED,
    INSERTED,
    KERNEL,
    PER_ITERATION,
    READ,
)
from passes.graph.graphs import is_operator, reads_of, walk_nodes
from passes.raising.dependence import Dependence
from passes.reading.facts import Kind, LoopFacts
from passes.reading.needs import Needs
from passes.reading.sources import Element
from passes.reading.trip_count import TripCount
from passes.typing import Typing, Typings

__all__ = ["LoopParts", "find_parts", "find_rounding", "row_count"]

_FREE = frozenset({"Constant", "Identity", "Squeeze", "Unsqueeze"})
"""Operators that are not worth a row of their own."""

_HEAVY_SHARE = 0.5
"""Which share of the time of a heavy operator batching saves at least: one row is a product of a
matrix and a vector."""

_WEIGHTS = 2.0 * 128 * 128
"""The multiplications of a product of unknown sizes: those of a small cell. Keras
hands the weights on from iteration to iteration, by which inference loses their shape."""

_LEAST_SHARE, _LEAST = 0.1, 0.5
"""The share of an iteration, and the microseconds of it, that splitting must save to pay."""

_ELEMENTS = 32
"""The elements of a list that an iteration copies to append one, of unknown length."""

_FEWEST = 4
"""So few iterations are not worth it."""


@dataclasses.dataclass(frozen=True)
class LoopParts:
    """The parts of a Loop that run in front of it, and behind it.

    Attributes:
        before: The outputs that the map in front gives.
        after: The outputs that the map behind gives.
        rows: Values that the map in front computes for the other parts.
        rest: The values that the Loop goes on computing, which the map behind may read.
        moved: The nodes that leave the Loop.
    """

    before: frozenset[ir.Value]
    after: frozenset[ir.Value]
    rows: Sequence[ir.Value]
    rest: Sequence[ir.Value]
    moved: Sequence[ir.Node]


def find_rounding(nodes: Iterable[ir.Node], opset: int) -> ir.Node | None:
    """Return a node that rounds otherwise where it is batched, if there is one."""
    inner = ((node, one) for node in nodes for one in walk_nodes([node]))
    rows = ((node, table.find(one, opset)) for node, one in inner)
    return next((n for n, row in rows if isinstance(row, table.Row) and row.rounding), None)


def row_count(facts: LoopFacts, trips: TripCount, needs: Needs, typings: Typings) -> int | str:
    """Return the number of iterations, or a symbol for it, as the dimension of tensors of rows."""
    if trips.static is not None:
        return trips.static
    whole = [read.source for read in needs.found if isinstance(read, Element) and read.is_whole]
    for source in [*(source for _, source in facts.iteration.scanned), *whole]:
        dim = source.dimension(typings.proven)
        if dim is not None and typings.proven.is_same_number(dim):
            return dim
    symbol = f"{facts.iteration.body.name}.{facts.iteration.node.outputs[0].name}.trips"
    for typing in (typings.declared, typings.proven):
        typing.name_dimension(symbol)
    return symbol


def find_parts(
    facts: LoopFacts,
    trips: TripCount,
    needs: Needs,
    typing: Typing,
    opset: int,
    *,
    patterns: bool,
) -> list[LoopParts]:
    """Return the ways in which it pays to split a Loop, the best first.

    Args:
        facts: The Loop or Scan.
        trips: How often it runs.
        needs: Tells what its body reads by the iteration number.
        typing: The proven typing.
        opset: Version of ONNX's operators.
        patterns: Whether carried values with a pattern are computed beside the Loop.
    """
    if trips.static is not None and trips.static < _FEWEST:
        return []
    on = Dependence(facts, needs, typing, opset, patterns=patterns)
    if not on.core:
        return []
    split = _Split(on)
    found: list[LoopParts] = []
    for before, after in ((True, True), (True, False), (False, True)):
        parts = split.parts(before=before, after=after)
        if parts is not None and parts not in found:
            found.append(parts)
    return found


class _Split:
    """Chooses the nodes that leave a Loop, by their cost and by what depends on a recurrence."""

    def __init__(self, on: Dependence) -> None:
        self.on = on

    def parts(self, *, before: bool, after: bool) -> LoopParts | None:
        """Return what leaves the Loop on the sides that are asked for, None if nothing does."""
        results = self.on.results()
        stays, behind = self._sides(results)
        core = self.on.rest(self.on.core_roots())
        late = [node for node in self.on.rest(behind.values()) if node not in core]
        values = {v for node in core for v in node.outputs} | self.on.core
        frontier = {v for node in late for v in reads_of(node) if v in values}
        saved = math.fsum(map(self._cost, late)) - COLLECTED * len(frontier - set(stays.values()))
        saved += COLLECTED * len(self.on.collected & behind.keys())
        if not after or saved <= 0:
            stays, behind, late, saved = stays | behind, {}, [], 0.0
        own = [*self.on.core_roots(), *stays.values()]
        if self.on.facts.iteration.next_goes_on is not None:
            own.append(self.on.facts.iteration.next_goes_on)
        ahead = {r: v for r, v in results.items() if not self.on.depends(v)}
        rest = self.on.rest(own)
        read = [v for node in rest for v in reads_of(node) if not self.on.depends(v)]
        tried = [self._cuts(read, least) for least in (READ["row"], 0.0)]
        cuts = max(tried, key=lambda one: self._gained(own, one, late))
        gained = self._gained(own, cuts, late)
        if not before or not (cuts or ahead) or gained <= 0:
            own += ahead.values()
            ahead, cuts, gained = {}, [], 0.0
        if not behind and not ahead and not cuts:
            return None
        if saved + gained < max(_LEAST, _LEAST_SHARE * self._whole_cost()):
            return None
        others = [v for node in late for v in reads_of(node) if not self.on.depends(v)]
        if ahead or cuts:
            cuts = list(dict.fromkeys([*cuts, *(v for v in others if self._weight(v) > 0)]))
        kept, _ = self.on.closure(own, cuts.__contains__)
        moved = [n for n in self.on.nodes if n in self.on.live and n not in kept and self._cost(n)]
        return LoopParts(frozenset(ahead), frozenset(behind), cuts, self.on.values_of(own), moved)

    def _sides(
        self, results: Mapping[ir.Value, ir.Value]
    ) -> tuple[dict[ir.Value, ir.Value], dict[ir.Value, ir.Value]]:
        """Return the outputs that the Loop yields, and those that could be computed behind it.

        Each depends on a recurrence. What the recurrence itself computes stays.
        """
        nodes = self.on.rest(self.on.core_roots())
        values = {v for node in nodes for v in node.outputs} | self.on.core
        late = {self.on.states[inner].carried.result for inner in self.on.late}
        stays: dict[ir.Value, ir.Value] = {}
        behind: dict[ir.Value, ir.Value] = {}
        core = {self.on.states[inner].carried.result for inner in self.on.core}
        for result, value in results.items():
            if self.on.depends(value) and result not in core:
                is_done = value in values and result not in late
                (stays if is_done else behind)[result] = value
        return stays, behind

    def _gained(
        self, own: Sequence[ir.Value], cuts: Sequence[ir.Value], late: Collection[ir.Node]
    ) -> float:
        """Return what is saved where the Loop reads some values as rows.

        What it read for nothing but them it reads no more.
        """
        kept, _ = self.on.closure(own, cuts.__contains__)
        gone = self.on.live - kept - set(late)
        read, left = ({v for n in nodes for v in self._rows_of(n)} for nodes in (gone, kept))
        rows = len(cuts) - len(read - left)
        return math.fsum(map(self._cost, gone)) - READ["row"] * rows

    def _rows_of(self, node: ir.Node) -> list[ir.Value]:
        """Return the rows that a node reads as they are: what it gathers, or is handed."""
        if isinstance(self.on.needs.read(node), Element):
            return list(node.outputs)
        scanned = {inner for inner, _ in self.on.facts.iteration.scanned}
        return [v for v in reads_of(node) if v in scanned]

    def _whole_cost(self) -> float:
        return PER_ITERATION + math.fsum(map(self._cost, self.on.live))

    def _cuts(self, read: Collection[ir.Value], least: float) -> list[ir.Value]:
        """Return which values the Loop reads as rows, of those that it needs.

        Args:
            read: The values that it needs.
            least: How many microseconds one iteration must take to compute such a value.
        """
        wanted = [v for v in dict.fromkeys(read) if v in self.on.varying]
        found: dict[ir.Value, None] = {}
        for value in wanted:
            if self._must_be_cut(value) or self._weight(value) > least:
                found[self._whole(value, wanted)] = None
        return list(found)

    def _whole(self, value: ir.Value, wanted: Collection[ir.Value]) -> ir.Value:
        """Return what several of the values are split from, or the value."""
        node = value.producer()
        if not is_operator(node, "Split"):
            return value
        whole = node.inputs[0]
        shared = [v for v in node.outputs if v in wanted]
        is_alone = all(v not in self.on.varying for v in node.inputs[1:] if v is not None)
        return whole if whole is not None and len(shared) > 1 and is_alone else value

    def _must_be_cut(self, value: ir.Value) -> bool:
        """Whether a value depends on what another part carries."""
        reached = (self.on.states[i] for i in self.on.reach.get(value, ()) if i in self.on.states)
        return any(state.kind is not Kind.COUNTER for state in reached)

    def _weight(self, value: ir.Value) -> float:
        """Return the microseconds in which one iteration computes a value."""
        nodes, _ = self.on.closure([value])
        return math.fsum(map(self._cost, nodes))

    def _cost(self, node: ir.Node) -> float:
        """Return the microseconds that batching a node saves in each iteration."""
        if node.op_type in _FREE or self.on.varying.isdisjoint(node.outputs):
            return 0.0
        if self.on.needs.read(node) is not None:
            return 0.0
        if is_operator(node, "SequenceInsert"):
            return INSERTED + COPIED * _ELEMENTS
        inner = [n for n in walk_nodes([node]) if n.op_type not in _FREE]
        return KERNEL * len(inner) + _HEAVY_SHARE * work_of(
            inner, self.on.typing, unknown=_WEIGHTS
        )
