"""Names the way in which a Loop or Scan spells a map."""

from __future__ import annotations

from passes.reading.facts import Kind, LoopFacts
from passes.reading.trips import Trips

__all__ = ["name_dialect"]


def name_dialect(facts: LoopFacts, trips: Trips) -> str:
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
        return "Loop until a counter reaches its end, as PyTorch's default exporter writes it"
    if iteration.condition is None:
        return "Loop with a trip count and no condition, as onnxscript writes it"
    if facts.of_kind(Kind.APPENDED):
        return "counted Loop that appends to a sequence, as TorchScript's exporter writes it"
    return "counted Loop"
