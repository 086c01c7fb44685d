"""Passes over ONNX models: graph in, graph out, each one an `onnx_ir` pass that works alone.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passes.lazy import load_attribute

if TYPE_CHECKING:
    from passes.batching.context import Context, Operand, Output
    from passes.batching.families.elementwise import broadcasting, elementwise
    from passes.batching.registration import register
    from passes.common_subexpressions import EliminateCommonSubexpressionsPass
    from passes.decisions import Code, Decision, Decline, Reason, Verdict
    from passes.eliminate import EliminateSequencesPass
    from passes.errors import RewriteError
    from passes.expand import ExpandSequenceMapPass
    from passes.fixed_lists import FixedListsPass
    from passes.fold_branches import FoldBranchesPass
    from passes.fuse import FuseSequenceMapPass
    from passes.inline import InlineMapFunctionsPass
    from passes.promises import FuseOptions, Promises
    from passes.raising import GiveBackPass, RaiseLoopsPass
    from passes.runtimes import SidestepDefectsPass
    from passes.runtimes.select_branches import SelectBranchesPass
    from passes.simplify import SimplifyBodiesPass
    from passes.typing import TypeValuesPass
    from passes.unroll import UnrollSequenceMapPass

__all__ = [
    "Code",
    "Context",
    "Decision",
    "Decline",
    "EliminateCommonSubexpressionsPass",
    "EliminateSequencesPass",
    "ExpandSequenceMapPass",
    "FixedListsPass",
    "FoldBranchesPass",
    "FuseOptions",
    "FuseSequenceMapPass",
    "GiveBackPass",
    "InlineMapFunctionsPass",
    "Operand",
    "Output",
    "Promises",
    "RaiseLoopsPass",
    "Reason",
    "RewriteError",
    "SelectBranchesPass",
    "SidestepDefectsPass",
    "SimplifyBodiesPass",
    "TypeValuesPass",
    "UnrollSequenceMapPass",
    "Verdict",
    "broadcasting",
    "elementwise",
    "register",
]

_MODULES = {
    "Code": "passes.decisions",
    "Context": "passes.batching.context",
    "Decision": "passes.decisions",
    "Decline": "passes.decisions",
    "EliminateCommonSubexpressionsPass": "passes.common_subexpressions",
    "EliminateSequencesPass": "passes.eliminate",
    "ExpandSequenceMapPass": "passes.expand",
    "FixedListsPass": "passes.fixed_lists",
    "FoldBranchesPass": "passes.fold_branches",
    "FuseOptions": "passes.promises",
    "FuseSequenceMapPass": "passes.fuse",
    "GiveBackPass": "passes.raising",
    "InlineMapFunctionsPass": "passes.inline",
    "Operand": "passes.batching.context",
    "Output": "passes.batching.context",
    "Promises": "passes.promises",
    "RaiseLoopsPass": "passes.raising",
    "Reason": "passes.decisions",
    "RewriteError": "passes.errors",
    "SelectBranchesPass": "passes.runtimes.select_branches",
    "SidestepDefectsPass": "passes.runtimes",
    "SimplifyBodiesPass": "passes.simplify",
    "TypeValuesPass": "passes.typing",
    "UnrollSequenceMapPass": "passes.unroll",
    "Verdict": "passes.decisions",
    "broadcasting": "passes.batching.families.elementwise",
    "elementwise": "passes.batching.families.elementwise",
    "register": "passes.batching.registration",
}


def __getattr__(name: str) -> Any:
    return load_attribute(__name__, name, _MODULES)


def __dir__() -> list[str]:
    return __all__
