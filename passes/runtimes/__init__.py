"""Known defects of runtimes, and the forms that step around them.

Start with `table`, a row for each defect, and `sidestep`, which writes the forms and tells the
model's own nodes, which stay, from those that a rewrite wrote. The forms stand in `defects`.
"""

from __future__ import annotations

from passes.runtimes.element_symbols import ElementSymbolsPass
from passes.runtimes.loop_conditions import LoopConditionsPass
from passes.runtimes.loop_states import LoopStatesPass
from passes.runtimes.near_weights import NearConstantsPass, NearWeightsPass
from passes.runtimes.one_branch import OneBranchPass
from passes.runtimes.sidestep import Authored, SidestepDefectsPass

__all__ = [
    "Authored",
    "ElementSymbolsPass",
    "LoopConditionsPass",
    "LoopStatesPass",
    "NearConstantsPass",
    "NearWeightsPass",
    "OneBranchPass",
    "SidestepDefectsPass",
]
