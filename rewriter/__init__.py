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
    from rewriter.bench_record import Bench
    from rewriter.budget import Budget
    from rewriter.errors import BackendError, FaultWarning, ModelError, ModelWarning
    from rewriter.models import load, save
    from rewriter.pipeline import explain, optimize, rewrite
    from rewriter.predictor import Prediction, Predictor
    from rewriter.proving import VerificationError
    from rewriter.reference import ReferenceEvaluator
    from rewriter.report import Report, Result
    from rewriter.sessions import session
    from rewriter.targets import TargetError
    from rewriter.timing import bench
    from rewriter.validation import Check, validate

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
    "Bench": "rewriter.timing",
    "Budget": "rewriter.budget",
    "Check": "rewriter.validation",
    "FaultWarning": "rewriter.errors",
    "ModelError": "rewriter.errors",
    "ModelWarning": "rewriter.errors",
    "Prediction": "rewriter.predictor",
    "Predictor": "rewriter.predictor",
    "ReferenceEvaluator": "rewriter.reference",
    "Report": "rewriter.report",
    "Result": "rewriter.report",
    "RewriteError": "passes.errors",
    "TargetError": "rewriter.targets",
    "VerificationError": "rewriter.proving",
    "backend": "rewriter.backend",
    "bench": "rewriter.timing",
    "explain": "rewriter.pipeline",
    "load": "rewriter.models",
    "optimize": "rewriter.pipeline",
    "rewrite": "rewriter.pipeline",
    "run": "rewriter.backends",
    "save": "rewriter.models",
    "session": "rewriter.sessions",
    "validate": "rewriter.validation",
}


def __getattr__(name: str) -> Any:
    return load_attribute(__name__, name, _MODULES)


def __dir__() -> list[str]:
    return __all__
