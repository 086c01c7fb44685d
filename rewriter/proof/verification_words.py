"""Puts the result of a verification into words."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

from rewriter.feeding.input_specs import InputSpec
from rewriter.proof.case_record import ALONE, ENGINES_DIFFER, UNJUDGED, Case
from rewriter.reporting.render_proof import plain_engine

__all__ = [
    "shape_remedy",
    "told_judges",
    "told_nothing",
    "told_rest",
    "told_unproven",
]

_UNKNOWN = re.compile(r"(?P<domain>[\w.]+):(?P<name>\w+)\(-?\d+\) is not a registered function/op")
_RUNTIME = "onnxruntime"


def told_judges(cases: Sequence[Case]) -> str:
    """Say what judged the cases that proved something, and what never ran the model after."""
    proving = [case for case in cases if case.verdict == "equal"]
    counts = collections.Counter(case.engine for case in proving)
    if len(counts) == 1:
        who = f"by {plain_engine(next(iter(counts)))}"
    else:
        who = (
            "(" + ", ".join(f"{n} by {plain_engine(engine)}" for engine, n in counts.items()) + ")"
        )
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
    return f"; no input ran the body of {paths[0]}{others}, so nothing is proven there"


def told_nothing(cases: Sequence[Case], remedy: str) -> str:
    """Say why nothing is verified, and what to do about it.

    Args:
        cases: What the feeds showed.
        remedy: Which promise would help to draw inputs, empty where none would.
    """
    equal = [case for case in cases if case.verdict == "equal"]
    if equal and not any(case.is_random for case in cases):
        tried = f"on {len(equal)} of {len(cases)} inputs both models agree, but no body of a map "
        what = f"{tried}or loop ran there ({equal[0].description})"
        fails = next((c.message for c in cases if c.verdict == "before fails" and c.message), "")
        what += f"; the first failure elsewhere: {fails}" if fails else ""
    else:
        reason = next((case.message for case in cases if case.message), "no input was tried")
        what = f"none of {len(cases)} inputs proves anything ({reason})"
    unknown = next(filter(None, (_UNKNOWN.search(case.message) for case in cases)), None)
    remedies = ["give inputs it accepts with --inputs"]
    if unknown:
        operator = f"{unknown['domain']}.{unknown['name']}"
        remedies = [f"define {operator} for the evaluator in a file given with --rules"]
    elif remedy and any(case.verdict == "before fails" for case in cases):
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
        why += ", where not even the rank is declared,"
    return f"promise {why} with --input-shape {spec.name}={dims}"


def told_rest(cases: Sequence[Case]) -> str:
    """Say what became of the cases that proved nothing, and where the engines do not agree."""
    counts = collections.Counter(case.verdict for case in cases)
    rest = ""
    if only_after := counts["defined only after"]:
        rest += f"; on {only_after} the model as given fails, and the new one runs"
    if fails := counts["before fails"]:
        rest += f"; on {fails} the model as given fails"
    skipped = [case for case in cases if case.verdict == "skipped"]
    if skipped:
        first = f"{skipped[0].description}: {skipped[0].message}"
        rest += f"; {len(skipped)} skipped, which would exceed the budget ({first})"
    apart = [case for case in cases if case.message.startswith(ENGINES_DIFFER)]
    if apart:
        rest += f"; on {len(apart)} {apart[0].message}"
    return rest
