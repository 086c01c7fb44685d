"""Lets what a rewrite writes for many samples run from the first sample on.

Random programs have few samples, and most of what ``auto`` writes asks for more of them first.
"""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.builder import Builder

__all__ = ["ask_for_one"]

_ASKING = (
    "passes.fusing.apply",
    "passes.fusing.few_iterations",
    "passes.fusing.questions",
    "passes.loops.copied_samples",
    "passes.loops.few_samples",
)
"""The modules that ask whether there are more samples than few."""


def ask_for_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Write models that ask for one sample where they would ask for more.

    Returns:
        The numbers that are not asked for; each joins them when a model is written.
    """
    left_out: list[int] = []

    def more_than(builder: Builder, count: ir.Value, few: int) -> ir.Value:
        left_out.append(few)
        return builder.op("Greater", [count, builder.scalar(0)])

    for module in _ASKING:
        monkeypatch.setattr(f"{module}.more_than", more_than)
    monkeypatch.setattr("passes.carried.recurrences.linear._FEW", 0)
    monkeypatch.setattr("passes.loops.blocks.BLOCK", 2)
    return left_out
