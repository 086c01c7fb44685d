"""What a rewrite gives."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar

from rewriter.report import Report

__all__ = ["Result"]

M = TypeVar("M")


@dataclasses.dataclass(frozen=True)
class Result(Generic[M]):
    """A rewritten model and what was done to it.

    Attributes:
        model: The new model, of the kind that was handed in (a path gives an
            ``onnx.ModelProto``).
        report: Decisions, operators before and after, assumptions, and the verification where
            there was one.
    """

    model: M
    report: Report

    def __str__(self) -> str:
        """Return the report as text."""
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
