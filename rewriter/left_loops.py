"""What is said of the Loops and Scans that stand in the rewritten model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import BATCHED_KEY, ORIGIN_KEY
from passes.decisions import Code, Decision, Reason, Verdict
from passes.graphs import all_nodes, node_paths
from passes.loops.escape import SPLITTABLE
from passes.reading.iterations import is_iteration

__all__ = ["with_built_sequences", "with_left_loops"]


def with_left_loops(
    decisions: Sequence[Decision], model: ir.Model, strategy: str
) -> list[Decision]:
    """Add a decision for each Loop and Scan of the model's own that has none: it stays.

    Those that were in a body are told of with the map that the body is of.

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
    return [*(_with_inner(decision, model) for decision in decisions), *left]


def _with_inner(decision: Decision, model: ir.Model) -> Decision:
    """Say which Loops and Scans of a body that was batched are left: each runs for all samples."""
    inside = f"{decision.path}/"
    origins = (
        node.metadata_props.get(ORIGIN_KEY, "") for node in all_nodes(model) if is_iteration(node)
    )
    notes = [
        f"'{origin}' in it stays: it runs once for all samples, one step after another"
        for origin in dict.fromkeys(origins)
        if origin.startswith(inside)
    ]
    if decision.verdict not in (Verdict.FUSED, Verdict.GUARDED, Verdict.FISSIONED) or not notes:
        return decision
    return dataclasses.replace(decision, notes=[*decision.notes, *notes])


_FORM = "a Loop is left, which builds the sequence of its results"


def with_built_sequences(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Say of every fused map whose result is still built by a Loop that it is, and why.

    Args:
        decisions: What was done with the maps.
        model: The rewritten model.
    """
    built = {
        node.metadata_props.get(ORIGIN_KEY, ""): sequence
        for node in node_paths(model)
        if node.op_type == "Loop" and BATCHED_KEY not in node.metadata_props
        for sequence in (value.type for value in node.outputs)
        if isinstance(sequence, ir.SequenceType) and sequence.elem_type.dtype not in SPLITTABLE
    }
    return [
        _told(decision, sequence)
        if decision.verdict is Verdict.FUSED and (sequence := built.get(decision.path))
        else decision
        for decision in decisions
    ]


def _told(decision: Decision, sequence: ir.SequenceType) -> Decision:
    dtype = sequence.elem_type.dtype.name.lower()
    detail = f"{Code.UNSPLITTABLE_TYPE.meaning}: its results are {dtype}"
    return dataclasses.replace(
        decision,
        form="; ".join(form for form in (decision.form, _FORM) if form),
        reasons=[*decision.reasons, Reason(Code.UNSPLITTABLE_TYPE, detail=detail)],
    )
