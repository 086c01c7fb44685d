"""Repairs a rewrite that a comparison refutes: the map to blame takes a safer form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from passes.ceilings import Ceiling, safer_forms
from passes.decisions import Code, Verdict
from passes.errors import RewriteError
from rewriter import models
from rewriter.check_record import Case, Check
from rewriter.models import AnyModel
from rewriter.report import Result

__all__ = ["Ceilings", "Repair", "Repaired", "repair"]

Ceilings = Mapping[str, Ceiling]
"""The furthest form that a map may take, by its path in the model as given."""

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
            f"{_IN_WORDS[self.form]} instead"
        )


_IN_WORDS = {
    Ceiling.GUARDED: "guarded",
    Ceiling.EXPANDED: "expanded",
    Ceiling.AS_GIVEN: "as given",
}


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
        found = search.blame(forms, ceilings)
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


def _is_guarded(path: str, result: Result[Any]) -> bool:
    """Whether a map of the model as given is guarded now; a function's stands elsewhere."""
    name = path.rpartition("/")[2]
    return any(
        decision.verdict is Verdict.GUARDED
        and decision.path.rpartition("/")[2] == name
        and any(reason.code is Code.REPAIRED for reason in decision.reasons)
        for decision in result.report.decisions
    )


@dataclasses.dataclass(frozen=True)
class _Search:
    """Looks for the map that makes a difference on one feed."""

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

    def blame(
        self, forms: Mapping[str, Sequence[Ceiling]], base: Ceilings
    ) -> tuple[str, Ceiling] | None:
        """Find a map that makes the difference, by leaving maps out.

        Args:
            forms: The safer forms of every map, the safest last.
            base: The ceilings so far.

        Returns:
            The map, and the first of its safer forms that takes the difference away while the
            maps before it are left out too; None where leaving all of them out does not help.
        """
        maps = [path for path in forms if base.get(path) is not forms[path][-1]]

        def without(count: int) -> dict[str, Ceiling]:
            return {**base, **{path: forms[path][-1] for path in maps[:count]}}

        if not maps or self.right(without(len(maps))) is None:
            return None
        wrong, right = 0, len(maps)  # so many maps left out, and what that gives
        while right - wrong > 1:
            middle = (wrong + right) // 2
            if self.right(without(middle)) is None:
                wrong = middle
            else:
                right = middle
        path = maps[wrong]
        known = base.get(path)
        safer = forms[path] if known is None else forms[path][forms[path].index(known) + 1 :]
        for form in safer[:-1]:
            result = self.right({**without(wrong), path: form})
            if result is None:
                continue
            is_less = form is Ceiling.GUARDED and not _is_guarded(path, result)
            return path, Ceiling.EXPANDED if is_less else form
        return path, safer[-1]
