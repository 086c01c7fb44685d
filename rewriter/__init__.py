"""seqmap: ONNX models with SequenceMap, rewritten so that every runtime can run them."""

from __future__ import annotations

from passes.errors import RewriteError
from rewriter import backend
from rewriter.backends import run
from rewriter.budget import Budget
from rewriter.models import ModelError, ModelWarning, load, save
from rewriter.pipeline import Result, explain, optimize, rewrite
from rewriter.proving import VerificationError
from rewriter.reference import ReferenceEvaluator
from rewriter.report import Report
from rewriter.targets import TargetError
from rewriter.validation import Check, validate

__all__ = [
    "Budget",
    "Check",
    "ModelError",
    "ModelWarning",
    "ReferenceEvaluator",
    "Report",
    "Result",
    "RewriteError",
    "TargetError",
    "VerificationError",
    "backend",
    "explain",
    "load",
    "optimize",
    "rewrite",
    "run",
    "save",
    "validate",
]
