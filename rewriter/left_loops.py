"""Loops and Scans of a model that no pass has looked at."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import ORIGIN_KEY
from passes.decisions import Code, Decision, Reason, Verdict
from passes.graphs import node_paths
from passes.reading.iterations import is_iteration

__all__ = ["with_left_loops"]


def with_left_loops(
    decisions: Sequence[Decision], model: ir.Model, strategy: str
) -> list[Decision]:
    """Add a decision for each Loop and Scan of the model's own that has none: it stays.

    Args:
        decisions: What was done with the maps.
        model: The rewritten model.
        strategy: ``expand`` looks at no Loop.
    """
    told = {decision.path for decision in decisions}
    reason = Reason(Code.STRATEGY if strategy == "expand" else Code.NOT_A_MAP)
    left = [
        Decision(path, node.op_type, Verdict.KEPT, "as it is", [reason])
        for node, path in node_paths(model).items()
        if is_iteration(node) and ORIGIN_KEY not in node.metadata_props and path not in told
    ]
    return [*decisions, *left]
