"""The map site: what is known of one map, whatever operator it was written with."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Literal, Protocol

import onnx_ir as ir

from passes.decisions import Reason
from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.graphs import is_operator, subgraphs, walk_nodes
from passes.graph.limits import MOST_GUARDED
from passes.maps.element_source import ElementSource
from passes.typing import Typing

__all__ = [
    "Alternative",
    "Condition",
    "GuardCheck",
    "MapResult",
    "MapSite",
    "Original",
    "Rest",
]


@dataclasses.dataclass(frozen=True)
class MapResult:
    """One way in which an output of the body leaves the map.

    Attributes:
        output: Position among the outputs of the body.
        kind: ``sequence``; ``stacked`` along a new axis; ``concatenated`` along an axis.
        value: The value of the enclosing graph that holds it.
        axis: The axis, as ConcatFromSequence has it (unused for a sequence).
        is_reversed: Of a stacked result: whether the first sample comes last.
    """

    output: int
    kind: Literal["sequence", "stacked", "concatenated"]
    value: ir.Value
    axis: int = 0
    is_reversed: bool = False


class GuardCheck(enum.StrEnum):
    """The question of a guard before the fused body runs: on elements, or on tensors cut alike."""

    SHAPES = "all shapes are equal"
    ROWS = "shapes differ in the first axis only"
    LENGTHS = "shapes differ in the first axis only, in all lists alike"
    SIZES = "the tensors are equally long"
    SLICES = "equally long slices"


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition at run time under which the reading of a map is right.

    Attributes:
        builder: What computes it, outside of the body.
        holds: Whether it holds: a boolean scalar.
    """

    builder: Builder
    holds: ir.Value


class Alternative(Protocol):
    """Another reading of a Loop or Scan, which is right where a condition holds."""

    check: GuardCheck

    def site(self, like: MapSite) -> MapSite:
        """Return the map; ``like`` is the reading that needs no condition."""

    @property
    def nodes(self) -> list[ir.Node]:
        """The node that reads the model's values for it."""


@dataclasses.dataclass(frozen=True)
class Rest:
    """The rest of a Loop that was split: a recurrence.

    Attributes:
        node: The new Loop or Scan.
        reason: Why it is no map.
        moved: How many nodes left its body.
        rounds: Whether one of them rounds otherwise than in the Loop.
    """

    node: ir.Node
    reason: Reason
    moved: int
    rounds: bool


@dataclasses.dataclass(frozen=True)
class Original:
    """The map that a Map took the place of, and what a node cannot say of it.

    Attributes:
        nodes: The Loop, Scan or SequenceMap, then the ConcatFromSequences behind it; each with
            the node that stood before it.
        written: The nodes that came into their place.
        values: Pairs of a value of theirs and the one that is read in its place.
        path: The path of the map.
        dialect: How a Loop or Scan spells a map.
        assumptions: What reading it relied on without proof.
        alternatives: Further readings.
        patterns: What it carries, and operators behind the Map compute.
        grows: Whether it copies in every iteration what it has appended so far: a loop that
            collects is better than it.
        needs_sizes: Whether operators behind the Map join what it yields to other values, so that
            of no iterations, too, its sizes have to be those of one.
        few: Up to how many iterations a Loop as given is faster, as was measured.
        rest: What is left of it beside the Maps, if it was split.
        sees_wholes: Whether an iteration reads all that was written so far of a tensor: such
            tensors are the shared values of the Map that reads them.
    """

    nodes: Sequence[tuple[ir.Node, ir.Node | None]]
    written: Sequence[ir.Node]
    values: Sequence[tuple[ir.Value, ir.Value]]
    path: str
    dialect: str = ""
    assumptions: Sequence[str] = ()
    alternatives: Sequence[Alternative] = ()
    patterns: Sequence[str] = ()
    grows: bool = False
    needs_sizes: bool = False
    few: int = 0
    rest: Rest | None = None
    sees_wholes: bool = False

    @property
    def node(self) -> ir.Node:
        """The Loop, Scan or SequenceMap."""
        return self.nodes[0][0]

    def trip_count(self, typing: Typing) -> ir.Value | None:
        """Return how many iterations a Loop has at most, where the model has a scalar for it."""
        value = self.node.inputs[0] if self.node.op_type == "Loop" else None
        return value if value is not None and typing.rank(value) == 0 else None

    @property
    def is_sequence_map(self) -> bool:
        """Whether it is a SequenceMap, which is raised only to be merged with other Maps."""
        return self.node.op_type == "SequenceMap"


@dataclasses.dataclass
class MapSite:
    """A map: the body is applied once to each sample.

    Attributes:
        node: The node that is the map, in ``graph``.
        graph: The graph that the node stands in.
        path: The node's path through subgraphs, for messages.
        elements: Each input of the body that differs per sample, and its source. The first
            source gives the number of samples.
        shared: Each input of the body that is one value for all samples, and that value.
        body: The graph that is applied; it may capture values.
        results: What is made of its outputs. An output without a result is unused.
        originals: What it was raised from; several where Maps were merged.
            What has an original is fused as a whole, or given back.
        condition: What must hold for this reading of it to be right; None if it always is.
    """

    node: ir.Node
    graph: ir.Graph
    path: str
    elements: list[tuple[ir.Value, ElementSource]]
    shared: list[tuple[ir.Value, ir.Value]]
    body: ir.Graph
    results: list[MapResult]
    originals: Sequence[Original] = ()
    condition: Condition | None = None

    @property
    def op_type(self) -> str:
        """The operator that the model as given has for the map."""
        return self.originals[-1].node.op_type if self.originals else self.node.op_type

    def used_outputs(self) -> list[int]:
        """Return the positions of the body outputs that have a result, ascending."""
        return sorted({result.output for result in self.results})

    @property
    def sequences(self) -> list[tuple[ir.Value, ir.Value]]:
        """Each input of the body that reads the elements of a sequence, and that sequence."""
        read = ((inner, source.sequence) for inner, source in self.elements)
        return [(inner, sequence) for inner, sequence in read if sequence is not None]

    def lengths_are_equal(self, typing: Typing) -> bool:
        """Whether all sources have one number of elements, by proof.

        They do if they are one value, slices along one axis of one tensor, slices along
        dimensions that are one number (proven typing), cut by one ``split``, constructed of as
        many tensors, or results of maps over such.
        """
        return len({source.length_key(typing) for _, source in self.elements}) == 1

    @property
    def behind_guards(self) -> int:
        """How many nodes of the body stand in branches of guards that a rewrite wrote."""
        return _guarded_nodes(self.body)

    @property
    def has_grown(self) -> bool:
        """Whether so many nodes of the body stand behind guards that it is written once only.

        A guard writes a body in each branch. Of maps inside of each other the innermost body
        would be written as often as the product of all branches.
        """
        return self.behind_guards > MOST_GUARDED


def _guarded_nodes(graph: ir.Graph) -> int:
    """Count the nodes in the branches of Ifs that a rewrite wrote."""
    total = 0
    for node in graph:
        is_guard = is_operator(node, "If") and ORIGIN_KEY in node.metadata_props
        for _, inner in subgraphs(node):
            total += sum(1 for _ in walk_nodes(inner)) if is_guard else _guarded_nodes(inner)
    return total
