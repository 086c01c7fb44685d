"""The record of one feed: the results of two models, compared."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

__all__ = ["ALONE", "ENGINES_DIFFER", "UNJUDGED", "Case", "Verdict"]

ALONE = "it alone judged: "
ENGINES_DIFFER = "the engines differ, before and after alike: "
UNJUDGED = "onnxruntime alone judged: "
"""How the messages of such cases begin."""

Verdict = Literal["equal", "differs", "before fails", "defined only after", "skipped"]


@dataclasses.dataclass(frozen=True)
class Case:
    """The result of one feed.

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
