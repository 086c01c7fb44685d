"""A pass that fails on a map, by a defect of its own: the map takes a safer form instead."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable
from typing import Generic, TypeVar

from passes.errors import ContradictionError, RewriteError, RuleError
from passes.promises import safer_forms
from rewriter.errors import FaultWarning, InvalidResultError
from rewriter.model_files.kinds import AnyModel
from rewriter.model_files.models import take
from rewriter.proof.blaming import IN_WORDS, Ceilings, Forms, blame
from rewriter.reporting.report import Result

__all__ = ["with_safer_forms", "without_fault"]

logger = logging.getLogger(__name__)

M = TypeVar("M")
R = TypeVar("R")

_FAULTS = (InvalidResultError, ContradictionError, RuleError)
"""Errors that say that a pass wrote something wrong, not that the model cannot be rewritten."""

_ROUNDS = 4
"""So many maps are looked for; where more are to blame, all maps take their safest forms."""


def without_fault(
    fault: Exception,
    before: AnyModel,
    write: Callable[[Ceilings], Result[M]],
    base: Ceilings,
    again: Callable[[Ceilings], Result[M]] | None = None,
) -> Result[M]:
    """Rewrite a model on which a pass failed; a map to blame takes the first safer form that can.

    A warning says which map and why: a map is never left out silently.

    Args:
        fault: What the pass failed with.
        before: The model.
        write: Rewrites it, with ceilings.
        base: The ceilings that are asked for.
        again: Rewrites it once more, with the ceilings that were found.

    Raises:
        RewriteError: The model cannot be rewritten as asked.
        Exception: The fault, where leaving out maps does not help.
    """
    result, ceilings, sentences = _safer(
        fault, write, base, lambda: safer_forms(take(before).model)
    )
    if again is not None:
        result = again(ceilings)
    known = result.report.warnings
    report = dataclasses.replace(result.report, warnings=(*known, *sentences))
    return dataclasses.replace(result, report=report) if sentences else result


def with_safer_forms(write: Callable[[Ceilings], R], forms: Callable[[], Forms]) -> R:
    """Write a model; where that fails, with safer forms of as few maps as possible.

    Args:
        write: Writes it, with ceilings.
        forms: Returns the safer forms of every map, the safest last; called where writing fails.

    Returns:
        What was written; a warning says what of it is in a safer form.

    Raises:
        RewriteError: The model cannot be written as asked.
        Exception: What a pass failed with, where leaving out maps does not help.
    """
    try:
        return write({})
    except Exception as fault:
        return _safer(fault, write, {}, forms)[0]


def _safer(
    fault: Exception, write: Callable[[Ceilings], R], base: Ceilings, forms: Callable[[], Forms]
) -> tuple[R, Ceilings, list[str]]:
    """Write a model once a pass has failed; return its ceilings and what is said of them, too."""
    if isinstance(fault, RewriteError) and not isinstance(fault, _FAULTS):
        raise fault
    logger.info("a pass failed", exc_info=fault)
    found = _FaultSearch(write, fault).safer(forms(), base)
    if found is None:
        raise fault
    for sentence in found[2]:
        warnings.warn(sentence, FaultWarning, stacklevel=2)
    return found


class _FaultSearch(Generic[R]):
    """Looks for the maps on which passes fail.

    Attributes:
        fault: What failed last.
    """

    def __init__(self, write: Callable[[Ceilings], R], fault: Exception) -> None:
        self._write = write
        self.fault = fault

    def right(self, ceilings: Ceilings) -> R | None:
        """Write with ceilings; None where that fails too."""
        try:
            return self._write(ceilings)
        except Exception as error:
            self.fault = error
            return None

    def safer(self, forms: Forms, base: Ceilings) -> tuple[R, Ceilings, list[str]] | None:
        """Leave out as few maps as possible; see `with_safer_forms`."""
        ceilings, sentences = dict(base), list[str]()
        for _ in range(_ROUNDS):
            found = blame(self.right, forms, ceilings)
            if found is None:
                return None
            path, form = found
            why = self._why(path, forms, ceilings)
            ceilings[path] = form
            sentences.append(
                f"{path} could not be rewritten ({why}) and is {IN_WORDS[form]} {self._ask()}"
            )
            result = self.right(ceilings)
            if result is not None:
                return result, ceilings, sentences
        safest = {path: safer[-1] for path, safer in forms.items()}
        result = self.right(safest)
        why = _in_words(self.fault)
        told = f"the maps could not be rewritten ({why}) and are as given {self._ask()}"
        return None if result is None else (result, safest, [told])

    def _why(self, path: str, forms: Forms, base: Ceilings) -> str:
        """Return what a pass fails with on one map while all others are left out."""
        others = {other: safer[-1] for other, safer in forms.items() if other != path}
        self.right({**base, **others})
        return _in_words(self.fault)

    def _ask(self) -> str:
        """Return what to do about the fault; one of a rule from outside says it itself."""
        if isinstance(self.fault, RuleError):
            return "instead"
        return "instead; this is a defect of seqmap, please report it"


def _in_words(fault: Exception) -> str:
    if isinstance(fault, RewriteError):
        return str(fault)
    lines = str(fault).splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__
