"""Parts of a report: what was done with a map, what became of the model at its runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from passes.decisions import Decision, is_no_remedy
from passes.promises import Promises
from rewriter.reporting.remedies import Remedies, still_open, without_options
from rewriter.target_table import Unreached

__all__ = ["Loading", "Outcome", "decision_record", "promises_record", "with_tried"]


Outcome = Literal["loaded", "refused", "not loaded"]


@dataclasses.dataclass(frozen=True)
class Loading:
    """How the runtime of the target took a rewritten model.

    Attributes:
        runtime: The backend and its version.
        outcome: ``not loaded`` where the runtime cannot be asked here.
        reason: Why it was refused or not loaded, or what the runtime wants to know beside the
            model; on one line, empty where there is nothing to say.
        node: Path of the node that the runtime refuses, empty where that is not known.
        op_type: Its operator, likewise.
        remedy: What can be done; empty where nothing has to be.
        by_version: It is refused only since it declares a newer version than the target accepts.
    """

    runtime: str
    outcome: Outcome
    reason: str = ""
    node: str = ""
    op_type: str = ""
    remedy: str = ""
    by_version: bool = False

    @property
    def sentence(self) -> str:
        """The outcome in one clause."""
        if self.outcome == "refused":
            return f"{self.runtime} refuses it: {self.reason}"
        if self.outcome == "not loaded":
            return (
                f"checked for sequences and control flow; {self.reason}, so it was not loaded "
                "there"
            )
        return f"{self.runtime} loads it" + (f", {self.reason}" if self.reason else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the record with plain values, fit for JSON."""
        return dataclasses.asdict(self) | {"sentence": self.sentence}


def with_tried(left: Unreached, remedies: Remedies) -> Unreached:
    """Offer of the options in a remedy those that were tried, before what else can be done."""
    if left.code == "refused":
        return left
    tried = [str(one) for one in remedies.nodes.get((left.node, left.op_type), ())]
    others = without_options(left.remedy)
    is_other = bool(others) and not (tried and is_no_remedy(others))
    ways = [*tried, *[others] * is_other]
    return dataclasses.replace(left, remedy=", or ".join(ways))


def decision_record(
    decision: Decision, spent: Sequence[str], remedies: Remedies
) -> dict[str, Any]:
    """Return a decision as plain values, fit for JSON.

    Args:
        decision: The decision.
        spent: Options that can do nothing more.
        remedies: What was tried.
    """
    helping = remedies.maps.get(decision.path, ())
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
                "remedy": _still_open(reason.remedy, spent, remedies, is_helped=bool(helping)),
                "dependents": list(reason.dependents),
            }
            for reason in decision.reasons
        ],
        "remedies": [remedy.to_dict() for remedy in helping],
        "assumptions": list(decision.assumptions),
        "notes": list(decision.notes),
        "boundary": [
            dataclasses.asdict(one) | {"layouts": list(one.layouts)} for one in decision.boundary
        ],
        "few": decision.few,
        "few_copied": decision.few_copied,
        "copy_of": decision.copy_of,
    }


def _still_open(remedy: str, spent: Sequence[str], remedies: Remedies, *, is_helped: bool) -> str:
    """Return what is left of the remedy for a reason, beside those for its map that were tried."""
    if is_helped and is_no_remedy(remedy):
        return ""
    return without_options(remedy) if remedies.tried else still_open(remedy, spent)


def promises_record(promises: Promises) -> dict[str, Any]:
    """Return promises as plain values, fit for JSON."""
    return {
        "uniform": sorted(promises.uniform),
        "input_shapes": {name: list(dims) for name, dims in sorted(promises.input_shapes.items())},
        "trust_types": promises.trust_types,
    }
