"""What the engines find on one feed."""

from __future__ import annotations

import dataclasses

from rewriter.proof.case_record import Verdict
from rewriter.proof.compare import Difference
from rewriter.proof.engines import Outcome, StoppedError

__all__ = ["Expected", "Finding", "named", "stopped", "worse"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """The verdict of the engines on one feed, with notes although nothing is wrong."""

    difference: Difference
    engine: str
    note: str = ""
    is_stopped: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.is_stopped:
            return "skipped"
        return "equal" if self.difference.equal else "differs"


@dataclasses.dataclass(frozen=True)
class Expected:
    """The outputs of the model as given, by which engine, and whether a body of it ran."""

    outcome: Outcome
    engine: str
    ran_body: bool
    ran: frozenset[str]


def stopped(error: StoppedError, engine: str) -> Finding:
    """Return that an engine took more than it may."""
    return Finding(Difference(), engine, str(error), is_stopped=True)


def named(difference: Difference, engine: str) -> Difference:
    """Say on which engine a difference was found."""
    if difference.equal:
        return difference
    name = engine.replace("reference", "the evaluator")
    return dataclasses.replace(difference, message=f"on {name}, {difference.message}")


def worse(one: Difference, other: Difference) -> Difference:
    """Return the largest of two differences, with the first message."""
    return Difference(
        one.message or other.message,
        max(one.max_abs_error, other.max_abs_error),
        max(one.max_rel_error, other.max_rel_error),
    )
