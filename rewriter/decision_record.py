"""What was done with a map, and what was promised, as plain values, fit for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from passes.decisions import Decision
from passes.promises import Promises
from rewriter.remedies import Remedies, still_open, without_options

__all__ = ["decision_record", "promises_record"]


def decision_record(
    decision: Decision, spent: Sequence[str], remedies: Remedies
) -> dict[str, Any]:
    """Return what was done with one map as plain values, with the remedies for it.

    Args:
        decision: What was done.
        spent: Options that can do nothing more; no remedy names them.
        remedies: What was tried.
    """
    return {
        "path": decision.path,
        "op_type": decision.op_type,
        "verdict": decision.verdict.value,
        "form": decision.form,
        "reasons": [
            {
                "code": reason.code.value,
                "node": reason.node,
                "op_type": reason.op_type,
                "detail": reason.detail or reason.code.meaning,
                "remedy": without_options(reason.remedy)
                if remedies.tried
                else still_open(reason.remedy, spent),
                "dependents": list(reason.dependents),
            }
            for reason in decision.reasons
        ],
        "remedies": [remedy.to_dict() for remedy in remedies.maps.get(decision.path, ())],
        "assumptions": list(decision.assumptions),
        "notes": list(decision.notes),
    }


def promises_record(promises: Promises) -> dict[str, Any]:
    """Return promises as plain values."""
    return {
        "uniform": sorted(promises.uniform),
        "input_shapes": {name: list(dims) for name, dims in sorted(promises.input_shapes.items())},
        "trust_types": promises.trust_types,
    }
