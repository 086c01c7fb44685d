"""What a comparison of two models showed, feed by feed, and in words."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rewriter.budget import Budget
from rewriter.input_specs import InputSpec

__all__ = [
    "ALONE",
    "ENGINES_DIFFER",
    "UNJUDGED",
    "Case",
    "Check",
    "Verdict",
    "shape_remedy",
    "told_judges",
    "told_nothing",
    "told_rest",
    "told_unproven",
]


ALONE = "it alone judged: "
ENGINES_DIFFER = "the engines differ, before and after alike: "
UNJUDGED = "onnxruntime alone judged: "
"""How the messages of such cases begin."""

Verdict = Literal["equal", "differs", "before fails", "defined only after", "skipped"]


@dataclasses.dataclass(frozen=True)
class Case:
    """What one feed showed.

    Attributes:
        description: What the feed is like.
        verdict: ``equal`` proves something; ``before fails`` and ``defined only after`` prove
            nothing; ``differs`` says that the rewrite is wrong on this feed; ``skipped`` that the
            feed takes more time or memory than the verification may.
        engine: What judged it.
        message: Why, in one sentence; empty when there is nothing to say.
        max_abs_error: Largest absolute difference of two numbers.
        max_rel_error: Largest relative difference of two numbers.
        is_random: Two runs of ``before`` differ, so that values cannot be compared at all.
        ran_body: Whether ``before`` ran the body of a map or a loop, or holds neither.
        ran: The maps and loops of ``before`` whose bodies ran, each by the name of its first
            output; empty where onnxruntime alone ran it.
        feed: The values, input by input.
    """

    description: str
    verdict: Verdict
    engine: str
    message: str = ""
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    is_random: bool = False
    ran_body: bool = True
    ran: frozenset[str] = dataclasses.field(default=frozenset(), repr=False)
    feed: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)


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
        """Return the result in one sentence."""
        return self.summary

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
                f"verified on {self.verified} of {len(self.cases)} feeds {told_judges(self.cases)}"
                f", largest difference from the model before {self.max_abs_error:.1e}"
                f"{told_rest(self.cases)}{told_unproven(self.never_ran)}"
            )
        return told_nothing(self.cases, self.shape_remedy)


_REFERENCE, _RUNTIME = "reference", "onnxruntime"


def told_judges(cases: Sequence[Case]) -> str:
    """Say what judged the cases that proved something, and what never ran the model after."""
    proving = [case for case in cases if case.verdict == "equal"]
    counts = collections.Counter(case.engine for case in proving)
    if len(counts) == 1:
        who = f"by {_plain(next(iter(counts)))}"
    else:
        who = "(" + ", ".join(f"{n} by {_plain(engine)}" for engine, n in counts.items()) + ")"
    told = next((case.message for case in proving if case.message.startswith(ALONE)), "")
    if told and not any(_RUNTIME in engine for engine in counts):
        who += f" alone ({told.removeprefix(ALONE)})"
    because = next((case.message for case in proving if case.message.startswith(UNJUDGED)), "")
    if because:
        who += f" ({because.removeprefix(UNJUDGED)})"
    return who


def told_unproven(paths: Sequence[str]) -> str:
    """Say which maps and loops no feed ran the bodies of."""
    if not paths:
        return ""
    others = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"; no feed ran the body of {paths[0]}{others}, of which nothing is proven"


def told_nothing(cases: Sequence[Case], remedy: str) -> str:
    """Say why nothing is verified, and what to do about it.

    Args:
        cases: What the feeds showed.
        remedy: Which promise would help to draw inputs, empty where none would.
    """
    equal = [case for case in cases if case.verdict == "equal"]
    if equal and not any(case.is_random for case in cases):
        tried = f"on {len(equal)} of {len(cases)} feeds both models agree, but no body of a map "
        what = f"{tried}or loop ran there ({equal[0].description})"
        fails = next((c.message for c in cases if c.verdict == "before fails" and c.message), "")
        what += f"; the first failure elsewhere: {fails}" if fails else ""
    else:
        reason = next((case.message for case in cases if case.message), "no feed was tried")
        what = f"none of {len(cases)} feeds proves anything ({reason})"
    remedies = ["give inputs it accepts with --inputs"]
    if remedy and any(case.verdict == "before fails" for case in cases):
        remedies.append(remedy)
    if any(case.verdict == "skipped" for case in cases):
        remedies.append("allow more with --verify-budget")
    return (
        f"not verified: {what}{told_rest(cases)}; {', or '.join(remedies)}, or skip this with "
        "--no-verify"
    )


def shape_remedy(specs: Sequence[InputSpec]) -> str:
    """Say which shape to promise so that inputs can be drawn, empty where all are known."""
    unknown = [spec for spec in specs if spec.dims is None]
    spec = next(iter(unknown or [spec for spec in specs if spec.is_open]), None)
    if spec is None:
        return ""
    dims = ",".join("d" * len(spec.dims or (None, None)))
    what = "the elements of " if spec.is_sequence else ""
    why = f"the shape of {what}{spec.name!r}"
    if spec.dims is None:
        why += ", of which not even the rank is declared,"
    return f"promise {why} with --input-shape {spec.name}={dims}"


def told_rest(cases: Sequence[Case]) -> str:
    """Say what became of the cases that proved nothing, and where the engines do not agree."""
    counts = collections.Counter(case.verdict for case in cases)
    rest = ""
    if only_after := counts["defined only after"]:
        rest += f"; {only_after} defined only after the rewrite"
    if fails := counts["before fails"]:
        rest += f"; on {fails} the model before fails"
    skipped = [case for case in cases if case.verdict == "skipped"]
    if skipped:
        rest += f"; {len(skipped)} skipped, which would exceed the budget ({skipped[0].message})"
    apart = [case for case in cases if case.message.startswith(ENGINES_DIFFER)]
    if apart:
        rest += f"; on {len(apart)} {apart[0].message}"
    return rest


def _plain(engine: str) -> str:
    return engine.replace(_REFERENCE, "the evaluator")
