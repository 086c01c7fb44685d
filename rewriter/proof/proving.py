"""Verifies a rewrite, repairs it where that is needed and possible, and reports both."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from passes.errors import RewriteError
from rewriter.backends import BackendError, open_session
from rewriter.errors import ModelError
from rewriter.feeding.feeds import Feed
from rewriter.model_files import checking, models
from rewriter.model_files.kinds import AnyModel
from rewriter.proof.blaming import Ceilings
from rewriter.proof.budget import Allowance, Budget
from rewriter.proof.case_record import Case
from rewriter.proof.check_record import Check
from rewriter.proof.judging import Judge
from rewriter.proof.proof_record import proof_record
from rewriter.proof.repairing import Repair, Repaired, repair
from rewriter.proof.validation import validate
from rewriter.reporting.python_words import in_python
from rewriter.reporting.report import Report, Result

__all__ = ["VerificationError", "prove", "refuse_invalid", "repaired", "with_proof"]


class VerificationError(RewriteError):
    """A rewrite is not verified: the models differ beyond repair, or nothing could be compared.

    Attributes:
        report: The report of the rewrite.
        check: What the feeds showed.
    """

    def __init__(self, report: Report, check: Check) -> None:
        differs = check.mismatch is not None
        self._told = f"the rewritten model {check.summary}" if differs else check.summary
        super().__init__(in_python(self._told))
        self.report = report
        self.check = check

    def on_command_line(self) -> str:
        """Return the message with options in place of Python's keyword arguments."""
        return self._told

    def __reduce__(self) -> tuple[type[VerificationError], tuple[Report, Check]]:
        """Make a copy, in another process too, from the report and the comparison."""
        return type(self), (self.report, self.check)


def prove(
    before: AnyModel, result: Result[Any], write: Callable[[Ceilings], Result[Any]]
) -> Result[Any]:
    """Verify a rewrite on drawn inputs, and repair it if need be.

    Args:
        before: The model that is right.
        result: The rewrite.
        write: Rewrites the model before, with ceilings.

    Returns:
        The rewrite, the verification in its report.

    Raises:
        VerificationError: It is not verified.
    """
    check = validate(before, result.model)
    repairs: tuple[Repair, ...] = ()
    mended = repaired(
        before, check, write, lambda one, rest: validate(before, one.model, budget=rest)
    )
    if mended is not None:
        result, check, repairs = mended.result, mended.check, mended.repairs
    if not check.ok:
        raise VerificationError(result.report, check)
    return with_proof(result, check, repairs)


def repaired(
    before: AnyModel,
    check: Check,
    write: Callable[[Ceilings], Result[Any]],
    compare: Callable[[Result[Any], Budget], Check],
    **tolerances: Any,
) -> Repaired | None:
    """Repair a rewrite that a comparison refutes; None where nothing is wrong, or no repair helps.

    All of it, without rewriting and loading, takes no longer than the comparison might have.

    Args:
        before: The model that is right.
        check: The comparison.
        write: Rewrites the model before, with ceilings.
        compare: Compares a result with the model before, within a budget.
        tolerances: ``rtol`` and ``atol``, as for `validate`.

    Raises:
        ModelError: The model before is not valid.
    """
    if check.mismatch is None:
        return None
    refuse_invalid(before)

    allowance = Allowance(check.budget)

    def agrees(result: Result[Any], case: Case) -> bool:
        allowance.start_feed()
        judge = Judge(before, result.model, allowance=allowance, **tolerances)
        return judge.case(Feed(case.description, case.feed)).verdict == "equal"

    def rewrite(ceilings: Ceilings) -> Result[Any]:
        with allowance.paused():
            return write(ceilings)

    return repair(before, check, rewrite, lambda one: compare(one, allowance.rest()), agrees)


def refuse_invalid(before: AnyModel) -> None:
    """Refuse a model that neither the checker nor onnxruntime takes: no rewrite is to blame.

    Raises:
        ModelError: Neither takes it.
    """
    try:
        checking.require_valid(models.take(before).model)
    except ModelError:
        with contextlib.suppress(BackendError):
            open_session(before, briefly=True)
            return
        raise


def with_proof(
    result: Result[Any], check: Check, repairs: tuple[Repair, ...] = (), folder: str = ""
) -> Result[Any]:
    """Return a rewrite with its verification in the report, and a warning for each repair.

    Args:
        result: The rewrite.
        check: What a comparison showed of it.
        repairs: What was repaired before.
        folder: Where the evidence for the repairs lies, empty where it is not kept.
    """
    see = f"; see {folder}" if folder else ""
    report = dataclasses.replace(
        result.report,
        verification=proof_record(check, repairs),
        warnings=(*result.report.warnings, *(f"{one.sentence}{see}" for one in repairs)),
    )
    return dataclasses.replace(result, report=report)
