"""Finds the map to blame for a rewrite that is wrong or fails, by leaving maps out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from passes.decisions import Code, Verdict
from passes.promises import Ceiling
from rewriter.reporting.report import Result

__all__ = ["IN_WORDS", "Ceilings", "Forms", "blame"]

Ceilings = Mapping[str, Ceiling]
"""The furthest form that a map may take, by its path in the model as given."""
Forms = Mapping[str, Sequence[Ceiling]]
"""The safer forms of every map, the safest last."""

IN_WORDS = {
    Ceiling.GUARDED: "guarded",
    Ceiling.EXPANDED: "expanded",
    Ceiling.AS_GIVEN: "as given",
}


def blame(
    right: Callable[[Ceilings], Any | None],
    forms: Forms,
    base: Ceilings,
) -> tuple[str, Ceiling] | None:
    """Find a map that is to blame, in log2 of the number of maps and a few tries.

    Args:
        right: Rewrites with ceilings; None where what is looked for is still wrong. A `Result`
            where a form is `Ceiling.GUARDED`.
        forms: The safer forms of every map, the safest last.
        base: The ceilings so far, with which it is wrong.

    Returns:
        The map, and the first of its safer forms that is right while the maps before it are left
        out too; None where leaving all of them out does not help.
    """
    maps = [path for path in forms if base.get(path) is not forms[path][-1]]

    def without(count: int) -> dict[str, Ceiling]:
        return {**base, **{path: forms[path][-1] for path in maps[:count]}}

    if not maps or right(without(len(maps))) is None:
        return None
    wrong, enough = 0, len(maps)  # so many maps left out, and what that gives
    while enough - wrong > 1:
        middle = (wrong + enough) // 2
        if right(without(middle)) is None:
            wrong = middle
        else:
            enough = middle
    path = maps[wrong]
    known = base.get(path)
    safer = forms[path] if known is None else forms[path][forms[path].index(known) + 1 :]
    for form in safer[:-1]:
        result = right({**without(wrong), path: form})
        if result is None:
            continue
        is_less = form is Ceiling.GUARDED and not _is_guarded(path, result)
        return path, Ceiling.EXPANDED if is_less else form
    return path, safer[-1]


def _is_guarded(path: str, result: Result[Any]) -> bool:
    """Whether a map of the model as given is guarded now; a function's stands elsewhere."""
    name = path.rpartition("/")[2]
    return any(
        decision.verdict is Verdict.GUARDED
        and decision.path.rpartition("/")[2] == name
        and any(reason.code is Code.REPAIRED for reason in decision.reasons)
        for decision in result.report.decisions
    )
