"""What the cases of a comparison amount to, in words."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from rewriter.judging import ALONE, ENGINES_DIFFER, Case

__all__ = ["told_judges", "told_rest"]

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
    return who


def told_rest(cases: Sequence[Case]) -> str:
    """Say what became of the cases that proved nothing, and where the engines do not agree."""
    counts = collections.Counter(case.verdict for case in cases)
    rest = ""
    if only_after := counts["defined only after"]:
        rest += f"; {only_after} defined only after the rewrite"
    if fails := counts["before fails"]:
        rest += f"; on {fails} the model before fails"
    apart = [case for case in cases if case.message.startswith(ENGINES_DIFFER)]
    if apart:
        rest += f"; on {len(apart)} {apart[0].message}"
    return rest


def _plain(engine: str) -> str:
    return engine.replace(_REFERENCE, "the evaluator")
