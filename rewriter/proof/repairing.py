"""Repairs a rewrite that a comparison refutes: the map to blame takes a safer form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from passes.errors import RewriteError
from passes.promises import Ceiling, safer_forms
from rewriter.model_files import models
from rewriter.model_files.kinds import AnyModel
from rewriter.proof.blaming import IN_WORDS, Ceilings, blame
from rewriter.proof.case_record import Case
from rewriter.proof.check_record import Check
from rewriter.reporting.report import Result

__all__ = ["Repair", "Repaired", "repair"]

_ROUNDS = 4
"""So many maps are repaired at most: what is wrong in more of them is no fault of a single map."""


@dataclasses.dataclass(frozen=True)
class Repair:
    """A map that was written wrongly, and the form that it has instead.

    Attributes:
        path: The map.
        form: The furthest form that it may take now.
        shown_by: What the feed was like that showed the difference.
        message: The difference.
    """

    path: str
    form: Ceiling
    shown_by: str
    message: str

    @property
    def sentence(self) -> str:
        """The repair in words."""
        return (
            f"{self.path} was written wrongly ({self.shown_by}: {self.message}) and is "
            f"{IN_WORDS[self.form]} instead"
        )


@dataclasses.dataclass(frozen=True)
class Repaired:
    """A rewrite after its repair, and what showed that it is right now."""

    result: Result[Any]
    check: Check
    repairs: tuple[Repair, ...]


def repair(
    before: AnyModel,
    check: Check,
    write: Callable[[Ceilings], Result[Any]],
    compare: Callable[[Result[Any]], Check],
    judge: Callable[[Result[Any], Case], bool],
) -> Repaired | None:
    """Write a model again so that it agrees with the model before.

    Args:
        before: The model that is right.
        check: A comparison that found a difference.
        write: Rewrites the model before, with ceilings.
        compare: Compares a result with the model before, on all feeds.
        judge: Whether a result agrees with the model before on the feed of one case.

    Returns:
        The repaired rewrite; None where the difference comes from outside of all maps, or nothing
        could be verified after the repair.
    """
    forms = safer_forms(models.take(before).model)
    ceilings: dict[str, Ceiling] = {}
    repairs: dict[str, Repair] = {}
    result: Result[Any] | None = None
    for _ in range(_ROUNDS):
        shown = check.mismatch
        if shown is None:
            break
        search = _Search(write, judge, shown)
        found = blame(search.right, forms, ceilings)
        if found is None:
            return None
        path, form = found
        ceilings[path] = form
        result = search.right(ceilings)
        first = repairs.get(path) or Repair(path, form, shown.description, shown.message)
        repairs[path] = dataclasses.replace(first, form=form)
        if result is not None:  # otherwise another map is to blame on the same feed
            check = compare(result)
    if result is None or not check.ok:
        return None
    return Repaired(result, check, tuple(repairs.values()))


@dataclasses.dataclass(frozen=True)
class _Search:
    """Rewrites, and compares on the feed that showed a difference."""

    write: Callable[[Ceilings], Result[Any]]
    judge: Callable[[Result[Any], Case], bool]
    shown: Case

    def right(self, ceilings: Ceilings) -> Result[Any] | None:
        """Rewrite with ceilings; return the result if it agrees on the feed."""
        try:
            result = self.write(ceilings)
        except RewriteError:
            return None
        return result if self.judge(result, self.shown) else None
