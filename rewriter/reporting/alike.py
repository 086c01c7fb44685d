"""Maps with the same decision: a report describes the first and names the others below it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LEAST_ALIKE", "kinds_of", "told_others"]

Record = Mapping[str, Any]
LEAST_ALIKE = 3
"""As many maps are told one by one; more are told once if they are alike."""
_NAMED = 5
"""As many of the others are named."""


def kinds_of(maps: Sequence[Record], *, each: bool) -> list[tuple[Record, list[str]]]:
    """Return each kind of map once, with the paths of the others that are like it.

    Args:
        maps: The maps of a report, as plain values.
        each: Return every map, alike or not.
    """
    if each:
        return [(one, []) for one in maps]
    groups: dict[str, list[Record]] = {}
    for entry in maps:
        groups.setdefault(_said(entry), []).append(entry)
    found: list[tuple[Record, list[str]]] = []
    for first, *others in groups.values():
        if len(others) < LEAST_ALIKE:
            found += kinds_of([first, *others], each=True)
        else:
            found.append((first, [one["path"] for one in others]))
    return found


def told_others(paths: Sequence[str]) -> list[str]:
    """Say in a line which maps are like the one above; no line where none are."""
    if not paths:
        return []
    named = ", ".join(paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return [f"so are {len(paths)} others: {named}{more}"]


def _said(entry: Record) -> str:
    """Return all that is said of a map but for its own path."""
    told = {key: entry[key] for key in ("op_type", "verdict", "form", "reasons", "notes")}
    remedies = [(one["text"], one["effect"]) for one in entry["remedies"]]
    return json.dumps([told, remedies]).replace(json.dumps(entry["path"])[1:-1], "")
