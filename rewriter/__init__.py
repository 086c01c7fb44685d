"""seqmap: ONNX models with SequenceMap, rewritten so that every runtime can run them.

Each name is imported when it is first used; the import of the package loads neither onnx nor
numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passes.lazy import load_attribute

if TYPE_CHECKING:
    from passes.errors import RewriteError
    from rewriter import backend
    from rewriter.backends import run
    from rewriter.errors import BackendError, FaultWarning, ModelError, ModelWarning
    from rewriter.evaluator.reference import ReferenceEvaluator
    from rewriter.model_files.on_disk import load, save
    from rewriter.pipeline import explain, optimize, rewrite
    from rewriter.proof.budget import Budget
    from rewriter.proof.proving import VerificationError
    from rewriter.proof.validation import Check, validate
    from rewriter.reporting.bench_record import Bench
    from rewriter.reporting.report import Report, Result
    from rewriter.running.predictor import Prediction, Predictor
    from rewriter.running.sessions import session
    from rewriter.running.timing import bench
    from rewriter.targets import TargetError

__all__ = [
    "BackendError",
    "Bench",
    "Budget",
    "Check",
    "FaultWarning",
    "ModelError",
    "ModelWarning",
    "Prediction",
    "Predictor",
    "ReferenceEvaluator",
    "Report",
    "Result",
    "RewriteError",
    "TargetError",
    "VerificationError",
    "backend",
    "bench",
    "explain",
    "load",
    "optimize",
    "rewrite",
    "run",
    "save",
    "session",
    "validate",
]

_MODULES = {
    "BackendError": "rewriter.errors",
    "Bench": "rewriter.running.timing",
    "Budget": "rewriter.proof.budget",
    "Check": "rewriter.proof.validation",
    "FaultWarning": "rewriter.errors",
    "ModelError": "rewriter.errors",
    "ModelWarning": "rewriter.errors",
    "Prediction": "rewriter.running.predictor",
    "Predictor": "rewriter.running.predictor",
    "ReferenceEvaluator": "rewriter.evaluator.reference",
    "Report": "rewriter.reporting.report",
    "Result": "rewriter.reporting.report",
    "RewriteError": "passes.errors",
    "TargetError": "rewriter.targets",
    "VerificationError": "rewriter.proof.proving",
    "backend": "rewriter.backend",
    "bench": "rewriter.running.timing",
    "explain": "rewriter.pipeline",
    "load": "rewriter.model_files.on_disk",
    "optimize": "rewriter.pipeline",
    "rewrite": "rewriter.pipeline",
    "run": "rewriter.backends",
    "save": "rewriter.model_files.on_disk",
    "session": "rewriter.running.sessions",
    "validate": "rewriter.proof.validation",
}


def __getattr__(name: str) -> Any:
    return load_attribute(__name__, name, _MODULES)


def __dir__() -> list[str]:
    return __all__
