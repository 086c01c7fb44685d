"""The verification of a rewrite as a plain record, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rewriter.proof.case_record import Case
from rewriter.proof.check_record import Check
from rewriter.proof.repairing import Repair

__all__ = ["proof_record"]


def proof_record(check: Check, repairs: Iterable[Repair] = ()) -> dict[str, Any]:
    """Return what a comparison showed as plain dicts, lists, strings and numbers, fit for JSON."""
    return {
        "ok": check.ok,
        "differs": check.mismatch is not None,
        "verified": check.verified,
        "skipped": sum(case.verdict == "skipped" for case in check.cases),
        "max_abs_error": _finite(check.max_abs_error),
        "max_rel_error": _finite(check.max_rel_error),
        "never_ran": list(check.never_ran),
        "broken_pass": check.broken_pass,
        "summary": check.summary,
        "budget": {"seconds": check.budget.seconds, "bytes": check.budget.memory},
        "repairs": [_repair(one) for one in repairs],
        "cases": [_case(case) for case in check.cases],
    }


def _repair(one: Repair) -> Mapping[str, str]:
    return {
        "path": one.path,
        "form": one.form.value,
        "shown_by": one.shown_by,
        "message": one.message,
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "description": case.description,
        "verdict": case.verdict,
        "engine": case.engine,
        "message": case.message,
        "ran_body": case.ran_body,
        "max_abs_error": _finite(case.max_abs_error),
        "max_rel_error": _finite(case.max_rel_error),
    }


def _finite(number: float) -> float | None:
    """Return the number, None where JSON has no number for it."""
    return number if math.isfinite(number) else None
