"""A predicted placement in words."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

__all__ = ["placement_lines"]

Record = Mapping[str, Any]
_SHOWN = 12
"""Reasons that are told one by one."""


def placement_lines(placement: Record, target: str) -> list[str]:
    """Return what a predicted placement says: a heading, then a line for each reason.

    Args:
        placement: See `rewriter.placement.predict.PredictedPlacement.to_dict`.
        target: The target of the model.
    """
    counts = [
        f"{_count(placement['device'], 'node')} on the device",
        f"{len(placement['host'])} on the host",
        "no copy" if not placement["copies"] else _count(placement["copies"], "copy"),
    ]
    if placement["copies_per_iteration"]:
        counts.append(f"{placement['copies_per_iteration']} of them in each iteration")
    lines = [f"placement on {target} ({placement['runtime']}, predicted): {', '.join(counts)}"]
    by_reason = collections.defaultdict(list)
    for one in placement["host"]:
        by_reason[one["op"], one["reason"]].append(one["path"])
    together: dict[str, list[tuple[str, list[str]]]] = {}
    for (op, reason), paths in by_reason.items():
        together.setdefault(reason, []).append((op, paths))
    told = [_reason_line(reason, operators) for reason, operators in together.items()]
    lines += told[:_SHOWN]
    if len(told) > _SHOWN:
        lines.append(f"and {len(told) - _SHOWN} more reasons")
    lines += [
        f"{one['path']}: {_count(one['copies'], 'copy')} in each iteration"
        for one in placement["loops_that_copy"]
    ]
    return [*lines, *filter(None, [placement["note"]])]


def _reason_line(reason: str, operators: list[tuple[str, list[str]]]) -> str:
    if len(operators) == 1 and len(operators[0][1]) == 1:
        op, (path,) = operators[0]
        return f"{path} ({op}) on the host: {reason}"
    named = ", ".join(f"{len(paths)} {op}" for op, paths in operators)
    return f"{named} on the host: {reason}"


def _count(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what.removesuffix('y')}ies" if what.endswith("y") else f"{count} {what}s"
