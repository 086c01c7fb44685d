"""How many nodes of each operator a model holds."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = ["LOOP_OPERATORS", "OperatorCounts", "count_operators"]

LOOP_OPERATORS = frozenset({"Loop", "Scan", "SequenceMap"})


@dataclasses.dataclass(frozen=True)
class OperatorCounts:
    """How many nodes of every operator a model holds, subgraphs and functions included.

    Attributes:
        by_type: Count by operator type, ``domain::type`` outside of the default domain; sorted
            by name.
    """

    by_type: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.by_type.values())

    @property
    def sequences(self) -> int:
        """The number of nodes that make, read or map a sequence."""
        return self._count(SEQUENCE_OPERATORS)

    @property
    def loops(self) -> int:
        """The number of Loop, Scan and SequenceMap nodes."""
        return self._count(LOOP_OPERATORS)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values, fit for JSON."""
        return {
            "total": self.total,
            "sequences": self.sequences,
            "loops": self.loops,
            "by_type": dict(sorted(self.by_type.items())),
        }

    def changes_to(self, after: OperatorCounts) -> str:
        """Say by how many nodes of each operator other counts differ from these."""
        one, other = self.by_type, after.by_type
        differences = {kind: other.get(kind, 0) - one.get(kind, 0) for kind in {**one, **other}}
        changed = [f"{kind} {n:+d}" for kind, n in sorted(differences.items()) if n]
        return ", ".join(changed) or "changed, with as many nodes of each operator"

    def _count(self, op_types: frozenset[str]) -> int:
        return sum(count for op_type, count in self.by_type.items() if op_type in op_types)


def count_operators(model: ir.Model) -> OperatorCounts:
    """Count the nodes of the main graph, of every subgraph and of every model-local function."""
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    counter = collections.Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for graph in graphs
        for node in graph.all_nodes()
    )
    return OperatorCounts(dict(sorted(counter.items())))
