"""The record of a comparison of two models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rewriter.proof.budget import Budget
from rewriter.proof.case_record import Case
from rewriter.proof.verification_words import told_judges, told_nothing, told_rest, told_unproven
from rewriter.reporting.python_words import in_python

__all__ = ["Check"]


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of a comparison.

    Attributes:
        cases: One record for each feed.
        broken_pass: The first pass whose result differs, where the passes were given.
        runtime_refusal: Why onnxruntime refuses the model after; empty where it takes it, None
            where it was not asked.
        budget: The time and the memory that the comparison may take.
        bodies: The paths of the maps and loops of the model before, by the names of their first
            outputs.
        shape_remedy: Which promise would help to draw inputs; empty where all shapes are known.
    """

    cases: tuple[Case, ...]
    broken_pass: str | None = None
    runtime_refusal: str | None = None
    budget: Budget = dataclasses.field(default_factory=Budget)
    shape_remedy: str = ""
    bodies: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        """Return the result in one sentence, remedies in Python's words."""
        return in_python(self.summary)

    def __repr__(self) -> str:
        """Return one line for a prompt; what each feed showed is in `cases`."""
        return f"<Check: {self}>"

    @property
    def verified(self) -> int:
        """How many feeds proved something.

        None did where the model draws random numbers, or no feed ran the body of a map or a loop.
        """
        equal = [case for case in self.cases if case.verdict == "equal"]
        if any(case.is_random for case in self.cases) or not any(c.ran_body for c in equal):
            return 0
        return len(equal)

    @property
    def mismatch(self) -> Case | None:
        """The first feed on which the models differ."""
        return next((case for case in self.cases if case.verdict == "differs"), None)

    @property
    def ok(self) -> bool:
        """Whether at least one feed proved something and none showed a difference."""
        return self.verified > 0 and self.mismatch is None

    @property
    def never_ran(self) -> tuple[str, ...]:
        """The maps and loops whose bodies ran on no feed that proves something.

        None where onnxruntime alone ran the model before: it does not tell.
        """
        equal = [case for case in self.cases if case.verdict == "equal" and case.ran_body]
        if not any(case.ran for case in equal):
            return ()
        ran = frozenset[str]().union(*(case.ran for case in equal))
        return tuple(path for name, path in self.bodies.items() if name not in ran)

    @property
    def max_abs_error(self) -> float:
        """Largest absolute difference of two numbers over all feeds."""
        return max((case.max_abs_error for case in self.cases), default=0.0)

    @property
    def max_rel_error(self) -> float:
        """Largest relative difference of two numbers over all feeds."""
        return max((case.max_rel_error for case in self.cases), default=0.0)

    @property
    def summary(self) -> str:
        """The result in one sentence, with the remedy where there is one."""
        if self.mismatch is not None:
            broken = f", since the pass {self.broken_pass}" if self.broken_pass else ""
            return f"differs on {self.mismatch.description}{broken}: {self.mismatch.message}"
        if self.verified:
            return (
                f"verified on {self.verified} of {len(self.cases)} inputs "
                f"{told_judges(self.cases)}, largest difference from the model before "
                f"{self.max_abs_error:.1e}{told_rest(self.cases)}{told_unproven(self.never_ran)}"
            )
        return told_nothing(self.cases, self.shape_remedy)
