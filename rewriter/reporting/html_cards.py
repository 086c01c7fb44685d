"""The cards of a page: what was done with each map, why, and its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewriter.reporting.alike import each_once, kinds_of, title
from rewriter.reporting.html_sections import safe
from rewriter.reporting.remedies import told

__all__ = ["cards", "legend"]

Record = Mapping[str, Any]
_FOLDED = 6
"""Reasons of one map that are shown unfolded."""


def cards(record: Record, by_path: Mapping[str, int]) -> list[str]:
    """Return the cards of all maps; a card is closed if an earlier map has the same decision.

    Args:
        record: The report.
        by_path: The number of the picture of each map, by path.
    """
    maps = each_once(record["maps"])
    shown = {one["path"] for one, _ in kinds_of(record["maps"], each=False)}
    return [_card(one, by_path, record, one["path"] in shown) for one in maps]


def _card(entry: Record, by_path: Mapping[str, int], record: Record, is_open: bool) -> str:
    form = f" {safe(entry['form'])}" if entry["form"] else ""
    lines = [_reason(one, tried=record["remedies_tried"]) for one in entry["reasons"]]
    shown, folded = lines[:_FOLDED], lines[_FOLDED:]
    if folded:
        count = f"{len(folded)} more reasons"
        shown.append(f"<details><summary>{count}</summary>{''.join(folded)}</details>")
    notes = [f"<p>{safe(note)}</p>" for note in entry["notes"]]
    remedies = [_remedy(one) for one in entry["remedies"]]
    number = by_path.get(entry["path"])
    picture = "" if number is None else _panes(number, entry["path"])
    opened = " open" * is_open
    return (
        f'<details{opened} class="card {entry["verdict"]}"><summary>{safe(title(entry))} '
        f'<span class="verdict">{entry["verdict"]}</span>{form}'
        f"</summary>\n{''.join([*shown, *notes, *remedies, picture])}\n</details>"
    )


def _reason(reason: Record, *, tried: bool) -> str:
    node = f"{safe(reason['node'])} ({safe(reason['op_type'])}): " if reason["node"] else ""
    after = told(reason["remedy"], tried=tried)
    dependents = reason["dependents"]
    inner = "".join(f"<li>{safe(one)}</li>" for one in dependents)
    is_one = len(dependents) == 1
    nodes = "1 node that depends on it" if is_one else f"{len(dependents)} nodes that depend on it"
    if dependents:
        inner = f"<details><summary>{nodes}</summary><ul>{inner}</ul></details>"
    more = f"; {safe(after)}" if after else ""
    code = reason["code"]
    what = f'<a href="#code-{code}"><code>{code}</code></a>: {safe(reason["detail"])}'
    return f"<p>{node}{what}{more}</p>{inner}"


def _remedy(remedy: Record) -> str:
    option = safe(remedy["option"])
    return (
        f'<div class="remedy"><span>remedy: <code>{safe(remedy["text"])}</code> '
        f"(tried: {safe(remedy['effect'])})</span>"
        f'<button type="button" data-copy="{option}" aria-label="copy {option}">copy</button>'
        "</div>"
    )


def _panes(number: int, path: str) -> str:
    figures = [
        f'<figure><figcaption>{side}</figcaption><div class="pane" tabindex="0" role="group" '
        f'data-map="{number}" data-side="{side}" aria-label="{safe(path)} {side} the rewrite">'
        "<noscript>the picture needs JavaScript</noscript></div></figure>"
        for side in ("before", "after")
    ]
    return f'<div class="panes">{"".join(figures)}</div>'


def legend() -> str:
    """Return what the colours of the pictures mean."""
    kinds = {"loop": "a loop or map", "sequence": "makes or reads a sequence", "branch": "an If"}
    told_kinds = ", ".join(
        f'<span class="key" style="background:var(--{kind})">{what}</span>'
        for kind, what in kinds.items()
    )
    return f'<p class="meta">{told_kinds}; pale: beside the map; dashed: what a node holds</p>'
