"""The reference evaluator as a backend: slow, complete, and right by the specification."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from passes.errors import RewriteError
from rewriter.backends.session import BackendError, Session, as_arrays, one_line
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.evaluator.run_watch import OverBudgetError

__all__ = ["DEVICES", "missing", "open_session"]

DEVICES = ("cpu",)

# What inputs that do not fit end in. Anything else says that an operator is not (fully) known.
_BLAMES_INPUTS = (RewriteError, ValueError, IndexError, ArithmeticError)


def missing() -> str:
    """Return why this backend cannot be used: it always can."""
    return ""


def open_session(model: onnx.ModelProto, folder: Path | None, device: str) -> Session:
    """Make a model ready to run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: Only ``cpu``.

    Raises:
        BackendError: The evaluator does not know an operator of the model.
    """
    if device not in DEVICES:
        raise BackendError(f"the reference evaluator runs on cpu, not on {device!r}", True)
    return _ReferenceSession(model, folder)


class _ReferenceSession:
    def __init__(self, model: onnx.ModelProto, folder: Path | None) -> None:
        self._outputs = [output.name for output in model.graph.output]
        try:
            self._evaluator = ReferenceEvaluator(model, folder=folder)
        except Exception as error:
            message = f"the reference evaluator cannot take the model: {one_line(error)}"
            raise BackendError(message, is_limit=True) from error

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        try:
            # Logarithms of negative numbers and the like are values here, not news.
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = self._evaluator.run(None, as_arrays(feeds))
        except OverBudgetError:
            raise
        except MemoryError as error:
            raise OverBudgetError("the memory does not suffice") from error
        except Exception as error:
            cause = error.__cause__ or error
            kind = "" if isinstance(error, RewriteError) else f"{type(error).__name__}: "
            raise BackendError(
                f"the reference evaluator fails: {kind}{one_line(error)}",
                is_limit=not isinstance(cause, _BLAMES_INPUTS),
            ) from error
        return dict(zip(self._outputs, results, strict=True))
