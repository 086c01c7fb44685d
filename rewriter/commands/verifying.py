"""Comparing two models on behalf of a command."""

from __future__ import annotations

import argparse
import logging
import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rewriter import validation
from rewriter.commands.console import Console
from rewriter.judging import Case
from rewriter.models import AnyModel

__all__ = ["verify"]

logger = logging.getLogger(__name__)

NOT_VERIFIED = 3
"""The exit status when models differ, or nothing could be compared."""


def verify(
    before: AnyModel,
    after: AnyModel,
    args: argparse.Namespace,
    console: Console,
    *,
    cases: int,
    beside: Path,
    passes: Iterator[tuple[str, Any]] | None = None,
) -> int:
    """Compare two models on the inputs that the options ask for.

    Args:
        before: The model that is right by definition.
        after: The model to check.
        args: The options of ``add_feed_options`` and ``add_tolerance_options``.
        console: Where the result goes.
        cases: How many inputs are drawn where none are given.
        beside: The model file under check; if the models differ, both of them, the feed and the
            command go to a folder of that name with ``.mismatch`` appended.
        passes: The models after each pass, read only to name the one that broke the model.

    Returns:
        The exit status: 0 when they agree, 3 when they do not or nothing could be compared.
    """
    with console.progress("verifying"):
        check = validation.validate(
            before,
            after,
            inputs=args.inputs,
            cases=cases,
            seed=args.seed,
            atol=args.atol,
            rtol=args.rtol,
            passes=passes,
        )
    for case in check.cases:
        detail = f": {case.message}" if case.message else ""
        logger.info("%s: %s (%s)%s", case.description, case.verdict, case.engine, detail)
    console.record["verification"] = {
        "ok": check.ok,
        "verified": check.verified,
        "max_abs_error": _finite(check.max_abs_error),
        "max_rel_error": _finite(check.max_rel_error),
        "broken_pass": check.broken_pass,
        "summary": check.summary,
        "cases": [_case(case) for case in check.cases],
    }
    if check.ok:
        console.say(check.summary)
        return 0
    message = check.summary
    if check.mismatch is not None:
        folder = validation.write_mismatch(
            beside.with_name(f"{beside.name}.mismatch"),
            before,
            after,
            check.mismatch.feed,
            command=shlex.join(["seqmap", *console.words]),
            broken_pass=check.broken_pass,
        )
        console.record["mismatch"] = str(folder)
        message = f"{check.summary}; see {folder}"
    console.error(message)
    return NOT_VERIFIED


def _case(case: Case) -> dict[str, Any]:
    return {
        "description": case.description,
        "verdict": case.verdict,
        "engine": case.engine,
        "message": case.message,
        "max_abs_error": _finite(case.max_abs_error),
        "max_rel_error": _finite(case.max_rel_error),
    }


def _finite(number: float) -> float | None:
    """Return the number, None where JSON has no number for it."""
    return number if math.isfinite(number) else None
