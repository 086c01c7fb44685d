"""The record of a plan: the form of a map, which is recorded and not yet in its graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from passes.decisions import Decision
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import Relied
from passes.loops.plan import LoopPlan
from passes.site import GuardCheck, MapSite

__all__ = ["FusionPlan", "few_note"]


@dataclasses.dataclass
class FusionPlan:
    """The form of a map, recorded and not yet in its graph.

    Attributes:
        site: The map.
        fused: Its body with a batch axis; one for each guard, in the order of asking, and last
            the one that needs none. Empty where it becomes a loop of ours.
        guarded: The sequences that the guards ask.
        needs_samples: Whether the fused bodies must not run without samples.
        loop: What it is where it is not fused: the last branch, where all forms have guards.
        decision: The same for the reader.
        rest: What the last branch is instead of a loop alone, where part of it is batched.
        few: Up to how many samples a loop runs instead of all this; 0 if any number pays.
        is_copied: Whether it is a copy of the body for each sample instead of a loop.
        few_of: Up to how many samples a further form is left out, where that is more.
        most_bytes: How large an element may be for a guard to pay; None for any size.
        relied: What the guards check of the elements of sequences.
        asks_sizes: Whether it asks what follows from sizes alone before it computes lengths.
    """

    site: MapSite
    fused: dict[GuardCheck | None, FusedBody]
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision
    rest: FusedBody | None = None
    few: int = 0
    is_copied: bool = False
    few_of: Mapping[GuardCheck, int] = dataclasses.field(default_factory=dict)
    most_bytes: int | None = None
    relied: Relied = dataclasses.field(default_factory=dict)
    asks_sizes: bool = True

    @property
    def is_guarded(self) -> bool:
        """Whether all its forms stand behind guards."""
        return bool(self.fused) and None not in self.fused


def few_note(few: int, *, is_copied: bool = False) -> str:
    """Say how few samples run."""
    where = "by copies of the body" if is_copied else "in one loop"
    return f"up to {few} samples run {where}, which is faster"
