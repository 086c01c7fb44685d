"""Maps with the same decision: a report describes the first and names the others below it.

Copies of one map, as an unrolled Scan makes of those in its body, are told as one, and maps that
were merged with another below that one.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from typing import Any

from passes.decisions import PART_OF

__all__ = ["LEAST_ALIKE", "each_once", "kinds_of", "title", "told_others", "told_parts"]

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
    maps = each_once(maps)
    if each:
        return [(one, []) for one in maps]
    groups: dict[str, list[Record]] = {}
    for entry in _with_parts(maps):
        groups.setdefault(_said(entry), []).append(entry)
    found: list[tuple[Record, list[str]]] = []
    for first, *others in groups.values():
        if len(others) < LEAST_ALIKE:
            found += [(one, []) for one in (first, *others)]
        else:
            found.append((first, [_path(one) for one in others]))
    return found


def _with_parts(maps: Sequence[Record]) -> list[Record]:
    """Return maps without those that were merged with another, which are named at that one."""
    wholes = {one["path"] for one in maps}
    parts = collections.defaultdict(list)
    for one in maps:
        parts[one["form"].removeprefix(PART_OF)].append(one)
    return [
        {**one, "parts": list(map(_path, parts[one["path"]]))}
        for one in maps
        if one["form"].removeprefix(PART_OF) not in wholes
    ]


def each_once(maps: Sequence[Record]) -> list[Record]:
    """Return maps, copies of one map with the same decision only once, with their number.

    Args:
        maps: The maps of a report, as plain values.

    Returns:
        The maps in their order, each with ``copies``: 0 where it is no copy.
    """
    groups: list[list[Record]] = []
    found: dict[tuple[str, str], list[Record]] = {}
    for entry in maps:
        key = (_path(entry), _said(entry))
        if entry["copy_of"] and key in found:
            found[key].append(entry)
        else:
            found[key] = [entry]
            groups.append(found[key])
    return [
        {**first, "copies": 1 + len(others) if others or first["copy_of"] else 0}
        for first, *others in groups
    ]


def title(entry: Record) -> str:
    """Name a map of `each_once`, and how many copies of it are told with it."""
    count = entry["copies"]
    copies = f"{count} copies of " if count > 1 else "a copy of " * count
    return f"{copies}{_path(entry)} ({entry['op_type']})"


def _path(entry: Record) -> str:
    """Return the path of a map in the model as given."""
    return entry["copy_of"] or entry["path"]


def told_others(paths: Sequence[str]) -> list[str]:
    """Say in a line which maps are like the one above; no line where none are."""
    if not paths:
        return []
    return [f"so are {len(paths)} others: {_named(paths)}"]


def told_parts(paths: Sequence[str]) -> list[str]:
    """Say in a line which maps were merged with the one above; no line where none were."""
    return [f"merged with it: {_named(paths)}"] if paths else []


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"


def _said(entry: Record) -> str:
    """Return all that is said of a map but for its own path."""
    kept = ("op_type", "verdict", "form", "reasons", "notes", "copies")
    told = {key: entry[key] for key in kept if key in entry}
    remedies = [(one["text"], one["effect"]) for one in entry["remedies"]]
    return json.dumps([told, remedies]).replace(json.dumps(_path(entry))[1:-1], "")
