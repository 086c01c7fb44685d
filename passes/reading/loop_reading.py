"""What a Loop or Scan was read as, and how it spells a map."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from passes.carried.rereads.seen import Seen
from passes.graph.builder import Builder
from passes.reading.facts import Kind, LoopFacts
from passes.reading.stages import CarriedResult
from passes.reading.trip_count import TripCount
from passes.site import MapSite

__all__ = ["LoopReading", "name_dialect"]


@dataclasses.dataclass(frozen=True)
class LoopReading:
    """A Loop or Scan as a map, and what a map does not say of it.

    Attributes:
        site: The map.
        finals: Each value that it yields beside the results, and what records that value outside
            of it.
        dialect: How it spells a map.
        assumptions: What reading it relied on without proof.
        behind: What operators behind the map compute.
        trips: The number of iterations.
        shaped: Carried values that must keep their shape.
        seen: What its iterations hold copies of: parts of tensors that earlier maps write, which
            are shared values of the map.
        earlier: The maps that compute rows which this one reads, in order; their tensors have no
            producer yet.
    """

    site: MapSite
    finals: Mapping[ir.Value, Callable[[Builder], ir.Value]]
    dialect: str
    assumptions: Sequence[str]
    behind: Sequence[CarriedResult]
    trips: TripCount
    shaped: frozenset[ir.Value] = frozenset()
    seen: Sequence[Seen] = ()
    earlier: Sequence[LoopReading] = ()

    @property
    def maps(self) -> list[LoopReading]:
        """All maps in the order in which they run, this one last."""
        return [*self.earlier, self]


def name_dialect(facts: LoopFacts, trips: TripCount) -> str:
    """Return what the report calls the form in which a map was found."""
    iteration = facts.iteration
    if iteration.number is None:
        if iteration.states:
            return "Scan with unchanged states, as scikit-learn's exporter writes it"
        return "Scan without a state"
    if trips.by_condition and facts.iteration.collected:
        return (
            "Loop with a counter beside the iteration number, as TensorFlow's exporter writes it"
        )
    if trips.by_condition:
        return (
            "Loop until a counter reaches its end, as PyTorch's default exporter and others "
            "write it"
        )
    if iteration.condition is None:
        return "Loop with a trip count and no condition, as onnxscript writes it"
    if facts.of_kind(Kind.APPENDED):
        return "counted Loop that appends to a sequence, as TorchScript's exporter writes it"
    return "counted Loop"
