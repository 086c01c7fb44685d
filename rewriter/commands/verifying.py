"""Comparing two models on behalf of a command."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rewriter.commands.console import Console
from rewriter.model_files.kinds import AnyModel
from rewriter.proof import validation
from rewriter.proof.budget import Budget
from rewriter.proof.case_record import Case
from rewriter.proof.proof_record import proof_record
from rewriter.proof.proving import refuse_invalid

__all__ = ["compare", "conclude", "keep_evidence", "verify"]

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
) -> int:
    """Compare two models on the inputs that the options ask for, and say what that showed.

    Args:
        before: The model that is right by definition.
        after: The model to check.
        args: The options of ``add_feed_options`` and ``add_tolerance_options``.
        console: Where the result goes.
        cases: How many inputs are drawn where none are given.
        beside: The model file under check, see ``conclude``.

    Returns:
        The exit status: 0 when they agree, 3 when they do not or nothing could be compared.
    """
    check = compare(before, after, args, console, cases=cases)
    return conclude(check, before, after, console, beside=beside)


def compare(
    before: AnyModel,
    after: AnyModel,
    args: argparse.Namespace,
    console: Console,
    *,
    cases: int,
    passes: Iterator[tuple[str, Any]] | None = None,
    budget: Budget | None = None,
) -> validation.Check:
    """Compare two models as ``verify`` does, and record the result.

    Args:
        before: The model that is right by definition.
        after: The model to check.
        args: The options, as for ``verify``.
        console: Where the record goes.
        cases: How many inputs are drawn where none are given.
        passes: The models after each pass, read only to name the one that broke the model.
        budget: What it may take, where that is not what the options say.
    """
    with console.progress("verifying") as move:
        check = validation.validate(
            before,
            after,
            inputs=args.inputs,
            cases=cases,
            seed=args.seed,
            atol=args.atol,
            rtol=args.rtol,
            passes=passes,
            budget=budget or args.verify_budget,
            on_feed=move,
        )
    for case in check.cases:
        detail = f": {case.message}" if case.message else ""
        logger.info("%s: %s (%s)%s", case.description, case.verdict, case.engine, detail)
    console.record["verification"] = proof_record(check)
    return check


def conclude(
    check: validation.Check,
    before: AnyModel,
    after: AnyModel,
    console: Console,
    *,
    beside: Path,
) -> int:
    """Say what a comparison showed.

    Args:
        check: The comparison.
        before: The model that is right by definition.
        after: The model that was checked.
        console: Where the result goes.
        beside: The model file under check; if the models differ, both of them, the feed and the
            command go to a folder of that name with ``.mismatch`` appended.

    Returns:
        The exit status: 0 when they agree, 3 when they do not or nothing could be compared.

    Raises:
        ModelError: They do not agree, and the model before is not valid.
    """
    if check.ok:
        console.say(check.summary)
        return 0
    refuse_invalid(before)
    message = check.summary
    if check.mismatch is not None:
        folder = keep_evidence(check.mismatch, check, before, after, console, beside=beside)
        message = f"{check.summary}; see {folder}"
    console.error(message)
    return NOT_VERIFIED


def keep_evidence(
    shown: Case,
    check: validation.Check,
    before: AnyModel,
    after: AnyModel,
    console: Console,
    *,
    beside: Path,
) -> Path:
    """Write both models, the feed and the command to a folder beside a model file.

    Args:
        shown: The case that shows the difference.
        check: The comparison.
        before: The model that is right by definition.
        after: The model that differs.
        console: Where the folder is recorded.
        beside: The model file.

    Returns:
        The folder, which is called as the file with ``.mismatch`` appended.
    """
    folder = validation.write_mismatch(
        beside.with_name(f"{beside.name}.mismatch"),
        before,
        after,
        shown.feed,
        command=shlex.join(["seqmap", *console.words]),
        broken_pass=check.broken_pass,
    )
    console.record["mismatch"] = str(folder)
    return folder
