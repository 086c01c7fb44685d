"""The verification in a report: one line for all of it, and one row for each feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["feed_rows", "plain_engine", "proof_lines"]

_VERDICTS = {
    "before fails": "the model as given fails",
    "defined only after": "only the new model runs",
}
_TITLES = ("input", "verdict", "judged by", "largest difference")


def proof_lines(record: Mapping[str, Any]) -> list[str]:
    """Return what the feeds amount to, the repaired maps, and the budget."""
    repairs = [
        f"repaired: {one['path']} is {one['form']}, since it differed on {one['shown_by']}: "
        f"{one['message']}"
        for one in record["repairs"]
    ]
    budget = record["budget"]
    size = f"{budget['bytes'] / 2**20:.0f} MB"
    limit = f"budget: {budget['seconds']:g} s and {size}; skipped: {record['skipped'] or 'none'}"
    return [record["summary"], *repairs, limit]


def feed_rows(record: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return a table of the feeds, its titles first."""
    return [_TITLES, *(_row(case) for case in record["cases"])]


def _row(case: Mapping[str, Any]) -> Sequence[str]:
    error = case["max_abs_error"]
    shown = "not finite" if error is None else f"{error:.1e}"
    is_compared = case["verdict"] in ("equal", "differs")
    verdict = _VERDICTS.get(case["verdict"], case["verdict"])
    if verdict == "equal" and not case["ran_body"]:
        verdict = "equal, no body ran"
    engine = plain_engine(case["engine"])
    return (case["description"], verdict, engine, shown if is_compared else "")


def plain_engine(engine: str) -> str:
    """Return what judged a case, in words."""
    words = engine.replace("reference", "the evaluator")
    return words.replace("on the plain expansion", "with maps as plain loops")
