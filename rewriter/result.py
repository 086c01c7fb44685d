"""What a rewrite gives."""

from __future__ import annotations

import dataclasses

from rewriter.models import AnyModel
from rewriter.report import Report

__all__ = ["Result"]


@dataclasses.dataclass(frozen=True)
class Result:
    """A rewritten model and what was done to it.

    Attributes:
        model: The new model, of the kind that was handed in (a path gives an
            ``onnx.ModelProto``).
        report: Decisions, operators before and after, assumptions, and the verification where
            there was one.
    """

    model: AnyModel
    report: Report
