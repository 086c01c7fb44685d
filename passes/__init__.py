"""Passes over ONNX models: graph in, graph out, each one an `onnx_ir` pass that works alone."""

from __future__ import annotations

from passes.decisions import Code, Decision, Decline, Reason, Verdict
from passes.errors import RewriteError
from passes.promises import Promises

__all__ = [
    "Code",
    "Decision",
    "Decline",
    "Promises",
    "Reason",
    "RewriteError",
    "Verdict",
]
