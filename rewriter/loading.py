"""What became of a rewritten model at the runtime that it is for."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

__all__ = ["Loading", "Outcome"]

Outcome = Literal["loaded", "refused", "not loaded"]


@dataclasses.dataclass(frozen=True)
class Loading:
    """What became of a rewritten model at the runtime of its target.

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
