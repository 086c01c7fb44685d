"""The record of a plan: the form of a map, which is recorded and not yet in its graph."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.decisions import Decision
from passes.fusing.form_choice import FormChoice
from passes.loops.plan import LoopPlan
from passes.site import MapSite

__all__ = ["FusionPlan"]


@dataclasses.dataclass
class FusionPlan:
    """The form of a map, recorded and not yet in its graph.

    Attributes:
        site: The map.
        choice: Its form: bodies with a batch axis, one for each guard, in the order of asking,
            and last the one that needs none. There are none where it becomes a loop of ours.
        guarded: The sequences that the guards ask.
        needs_samples: Whether the fused bodies must not run without samples.
        loop: What it is where it is not fused: the last branch, where all forms have guards.
        decision: The same for the reader.
        asks_sizes: Whether it asks what follows from sizes alone before it computes lengths.
    """

    site: MapSite
    choice: FormChoice
    guarded: list[ir.Value]
    needs_samples: bool
    loop: LoopPlan
    decision: Decision
    asks_sizes: bool = True

    @property
    def is_without_loop(self) -> bool:
        """Whether the map becomes something else than a loop of ours alone."""
        return bool(self.choice.forms) or self.choice.runs_copies

    def with_any_number(self) -> FusionPlan:
        """Return the same plan, which does not ask whether there are few samples."""
        return dataclasses.replace(self, choice=dataclasses.replace(self.choice, few=0))
