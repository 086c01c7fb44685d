"""The verification and the placement in a report: lines and rows."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["feed_rows", "placement_lines", "proof_lines"]


_TITLES = ("feed", "verdict", "judged by", "largest difference")


def proof_lines(record: Mapping[str, Any]) -> list[str]:
    """Return what the feeds amount to, the repaired maps, and the budget."""
    repairs = [
        f"repaired: {one['path']} is {one['form']}, since it differed on {one['shown_by']}: "
        f"{one['message']}"
        for one in record["repairs"]
    ]
    budget = record["budget"]
    size = f"{budget['bytes'] / 2**20:.0f} MB"
    limit = f"budget: {budget['seconds']:g} s and {size}, {record['skipped']} feeds skipped"
    return [record["summary"], *repairs, limit]


def feed_rows(record: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return a table of the feeds, its titles first."""
    return [_TITLES, *(_row(case) for case in record["cases"])]


def _row(case: Mapping[str, Any]) -> Sequence[str]:
    error = case["max_abs_error"]
    shown = "not finite" if error is None else f"{error:.1e}"
    is_compared = case["verdict"] in ("equal", "differs")
    verdict = case["verdict"]
    if verdict == "equal" and not case["ran_body"]:
        verdict = "equal, no body ran"
    engine = case["engine"].replace("reference", "the evaluator")
    return (case["description"], verdict, engine, shown if is_compared else "")


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
