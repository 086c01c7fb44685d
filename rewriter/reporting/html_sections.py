"""Sections of the page of a report that are tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewriter.reporting.number_columns import number_columns
from rewriter.reporting.printable import printable
from rewriter.reporting.report_tables import boundary_rows, environment_rows, operator_rows

__all__ = [
    "environment_section",
    "html_table",
    "operators_section",
    "safe",
    "section",
    "shapes_section",
]

Record = Mapping[str, Any]
_UNCHANGED = "<p>as many of each as before</p>"


def safe(text: object) -> str:
    """Return text that a page shows as it is, control characters escaped."""
    return html.escape(printable(str(text)))


def section(title: str, parts: Iterable[str]) -> str:
    """Return a section of parts of HTML, empty where all of them are."""
    inner = "\n".join(filter(None, parts))
    return f"<section>\n<h2>{safe(title)}</h2>\n{inner}\n</section>" if inner else ""


def shapes_section(record: Record) -> str:
    """Return the types of inputs and outputs, and how the values at each map are held."""
    promised = record["promises"]["input_shapes"]
    uniform = record["promises"]["uniform"]
    rows: list[Sequence[str]] = [("value", "declared", "promised", "in the new model")]
    for title, key in (("input", "inputs"), ("output", "outputs")):
        before, after = record["given"][key], record["new"][key]
        passed = record["tensor_io"][key]
        for name in {**before, **after}:
            promise = "one shape" if name in uniform else ""
            if name in promised:
                promise = str(["?" if dim is None else dim for dim in promised[name]])
            form = f" ({passed[name]['form']})" if name in passed else ""
            declared, new = before.get(name, ""), after.get(name, "")
            now = "as declared" if new == declared and not form else new + form
            rows.append((f"{title} {name}", declared, promise, now))
    if not any(row[2] for row in rows[1:]):
        rows = [(name, declared, new) for name, declared, _, new in rows]
    tables = [html_table(rows)] if len(rows) > 1 else []
    if held := boundary_rows(record):
        tables.append(f"<h3>at the maps</h3>{html_table(held)}")
    return section("shapes", tables)


def operators_section(record: Record) -> str:
    """Return the operators whose number changed, and all of them, folded."""
    head, *rows = operator_rows(record["operators"])
    changed = [row for row in rows if row[1] != row[2]]
    inner = f"<details><summary>all operators</summary>{html_table([head, *rows])}</details>"
    title = f"changed in number: {len(changed)}"
    told_rows = f"<details><summary>{title}</summary>{html_table([head, *changed])}</details>"
    return section("operators", [told_rows if changed else _UNCHANGED, inner])


def environment_section(record: Record) -> str:
    """Return the versions that the report was made with, folded."""
    table = html_table(environment_rows(record))
    return section("environment", [f"<details><summary>versions</summary>{table}</details>"])


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row has the titles; numbers stand at the right."""
    if not rows:
        return ""
    head, *others = rows
    kinds = [
        " class=number" if is_number else _of_texts(others, column)
        for column, is_number in enumerate(number_columns(rows))
    ]
    lines = [f"<tr>{_cells('th scope=col', head, kinds)}</tr>"]
    lines += [f"<tr>{_cells('td', row, kinds)}</tr>" for row in others]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _of_texts(rows: Sequence[Sequence[str]], column: int) -> str:
    """Return the class of a column of texts: long ones are broken, others are not."""
    return " class=long" if any(len(row[column]) > _LONG for row in rows) else ""


_LONG = 36


def _cells(tag: str, row: Sequence[str], kinds: Sequence[str]) -> str:
    name = tag.split()[0]
    return "".join(
        f"<{tag}{kind}>{safe(cell)}</{name}>" for cell, kind in zip(row, kinds, strict=True)
    )
