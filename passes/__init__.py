"""Passes over ONNX models: graph in, graph out, each one an `onnx_ir` pass that works alone."""

from __future__ import annotations

from passes.decisions import Code, Decision, Decline, Reason, Verdict
from passes.eliminate import EliminateSequencesPass
from passes.errors import RewriteError
from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.fuse_loops import ReadLoopsPass
from passes.inline import InlineMapFunctionsPass
from passes.promises import Promises
from passes.raising import GiveBackPass, RaiseLoopsPass
from passes.runtimes import SidestepDefectsPass
from passes.select_branches import SelectBranchesPass
from passes.simplify import SimplifyBodiesPass
from passes.typing import TypeValuesPass
from passes.unroll import UnrollSequenceMapPass
from passes.unroll_loops import UnrollLoopsPass

__all__ = [
    "Code",
    "Decision",
    "Decline",
    "EliminateSequencesPass",
    "ExpandSequenceMapPass",
    "FuseSequenceMapPass",
    "GiveBackPass",
    "InlineMapFunctionsPass",
    "Promises",
    "RaiseLoopsPass",
    "ReadLoopsPass",
    "Reason",
    "RewriteError",
    "SelectBranchesPass",
    "SidestepDefectsPass",
    "SimplifyBodiesPass",
    "TypeValuesPass",
    "UnrollLoopsPass",
    "UnrollSequenceMapPass",
    "Verdict",
]
