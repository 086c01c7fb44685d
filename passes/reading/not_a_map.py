"""Why a Loop or Scan is no map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.decisions import Code, Reason

__all__ = ["DoubtfulReadError", "NotAMapError", "SpeculationError"]


class NotAMapError(Exception):
    """A Loop or Scan is no map.

    Attributes:
        reason: Why, with the node that decides it.
    """

    def __init__(
        self, code: Code, detail: str, node: ir.Node | None = None, advice: str = ""
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.node = node
        self.advice = advice

    def reason(self, paths: Mapping[ir.Node, str]) -> Reason:
        """Return the reason for the report."""
        if self.node is None:
            return Reason(self.code, detail=self.detail, advice=self.advice)
        path = paths.get(self.node) or self.node.name or self.node.op_type
        return Reason(self.code, path, self.node.op_type, self.detail, self.advice)


class DoubtfulReadError(NotAMapError):
    """A number was followed that its vector may not have."""


class SpeculationError(NotAMapError):
    """Nodes of a branch would run in iterations that do not take it, where they may fail.

    Attributes:
        failing: The nodes.
    """

    def __init__(self, code: Code, detail: str, failing: Sequence[ir.Node]) -> None:
        super().__init__(code, detail, failing[0])
        self.failing = failing
