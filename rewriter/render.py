"""A report as text, Markdown and HTML, from its plain record (``Report.to_dict``).

The record is first laid out as blocks (a heading with paragraphs, a list, or a table), then each
format writes the blocks its own way, so that all three say the same.
"""

from __future__ import annotations

import collections
import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.remedies import told

__all__ = ["to_html", "to_markdown", "to_text"]

Record = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class _Item:
    """One line, and the lines that belong to it."""

    line: str
    details: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class _Block:
    """A heading and what stands under it: items, then rows of a table (the first: titles)."""

    heading: str
    items: Sequence[_Item] = ()
    rows: Sequence[Sequence[str]] = ()


def to_text(record: Record) -> str:
    """Return the report for a terminal, one line for a map and its reasons indented below."""
    lines: list[str] = []
    for block in _blocks(record):
        below = ":" if block.items or block.rows else ""
        lines.append(f"{block.heading}{below}")
        for item in block.items:
            lines.append(f"  {item.line}")
            lines.extend(f"      {detail}" for detail in item.details)
        lines.extend(_aligned(block.rows))
    return "\n".join(lines) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  " + "  ".join([first.ljust(widths[0]), *cells]))
    return lines


def to_markdown(record: Record) -> str:
    """Return the report as Markdown."""
    lines = ["# seqmap report", ""]
    for block in _blocks(record):
        lines += [f"## {_markdown(block.heading)}", ""]
        for item in block.items:
            lines.append(f"- {_markdown(item.line)}")
            lines.extend(f"  - {_markdown(detail)}" for detail in item.details)
        for number, row in enumerate(block.rows):
            lines.append("| " + " | ".join(_markdown(cell) for cell in row) + " |")
            if number == 0:
                lines.append("| --- " + "| ---: " * (len(row) - 1) + "|")
        lines.append("")
    return "\n".join(lines)


def to_html(record: Record) -> str:
    """Return the report as one HTML page that needs no other file."""
    parts = [_HTML_HEAD]
    for block in _blocks(record):
        parts.append(f"<h2>{html.escape(block.heading)}</h2>")
        if block.items:
            parts.append("<ul>")
            for item in block.items:
                nested = "".join(f"<li>{html.escape(detail)}</li>" for detail in item.details)
                below = f"<ul>{nested}</ul>" if nested else ""
                parts.append(f"<li>{html.escape(item.line)}{below}</li>")
            parts.append("</ul>")
        if block.rows:
            parts.append("<table>")
            for number, row in enumerate(block.rows):
                tag = "th" if number == 0 else "td"
                cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
                parts.append(f"<tr>{cells}</tr>")
            parts.append("</table>")
    return "\n".join([*parts, "</body>", "</html>", ""])


_HTML_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>seqmap report</title>
<style>
body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #999; padding: 0.1em 0.6em; text-align: right; }
th:first-child, td:first-child { text-align: left; }
</style>
</head>
<body>
<h1>seqmap report</h1>"""

_MARKDOWN_ESCAPES = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|"})


def _markdown(text: str) -> str:
    return text.translate(_MARKDOWN_ESCAPES)


def _blocks(record: Record) -> list[_Block]:
    maps = [_map_item(entry, tried=record["remedies_tried"]) for entry in record["maps"]]
    blocks = [_Block(_maps_heading(record), maps)]
    if promises := _promise_items(record["promises"]):
        blocks.append(_Block("promises", promises))
    if passed := _tensor_items(record["tensor_io"]):
        blocks.append(_Block("sequences as tensors", passed))
    blocks += [
        _Block(title, [_Item(line) for line in record[title]])
        for title in ("assumptions", "warnings")
        if record[title]
    ]
    blocks.append(_Block("operators", rows=_operator_rows(record["operators"])))
    blocks.append(_target_block(record))
    return blocks


def _maps_heading(record: Record) -> str:
    count = len(record["maps"])
    heading = f"maps (strategy {record['strategy']})" if count else "no maps"
    return f"{heading}, nothing to do" if record["nothing_to_do"] else heading


def _map_item(entry: Record, *, tried: bool) -> _Item:
    verdict = f"{entry['verdict']}: {entry['form']}" if entry["form"] else entry["verdict"]
    details = [_reason_line(reason, tried=tried) for reason in entry["reasons"]]
    details += [*entry["notes"], *(_remedy_line(remedy) for remedy in entry["remedies"])]
    return _Item(f"{entry['path']} ({entry['op_type']})  {verdict}", details)


def _reason_line(reason: Record, *, tried: bool) -> str:
    node = f"{reason['node']} ({reason['op_type']}): " if reason["node"] else ""
    count = len(reason["dependents"])
    behind = f", and {count} nodes that depend on it" if count > 1 else ""
    behind = ", and 1 node that depends on it" if count == 1 else behind
    why = f"{node}{reason['code']}: {reason['detail']}{behind}"
    return "; ".join(filter(None, [why, told(reason["remedy"], tried=tried)]))


def _remedy_line(remedy: Record) -> str:
    return f"remedy: {remedy['text']} (tried: {remedy['effect']})"


def _promise_items(promises: Record) -> list[_Item]:
    items = [_Item(f"uniform: {name}") for name in promises["uniform"]]
    for name, dims in promises["input_shapes"].items():
        shown = ", ".join("?" if dim is None else str(dim) for dim in dims)
        items.append(_Item(f"shape of {name}: [{shown}]"))
    if promises["trust_types"]:
        items.append(_Item("declared dimensions of sequence elements hold"))
    return items


def _tensor_items(tensor_io: Record) -> list[_Item]:
    items = []
    for side in ("input", "output"):
        for name, passed in tensor_io[f"{side}s"].items():
            dims = passed["dims"]
            shown = None if dims is None else ["?" if d is None else str(d) for d in dims]
            first = "B"
            if passed["form"] == "packed":
                first, shown = "sum of lengths", (shown or [])[1:]
            shape = ", ".join([first, *(["..."] if shown is None else shown)])
            beside = f", lengths in {passed['lengths']}" if "lengths" in passed else ""
            items.append(_Item(f"{side} {name}: {passed['form']} [{shape}]{beside}"))
    return items


def _operator_rows(operators: Record) -> list[Sequence[str]]:
    before, after = operators["before"], operators["after"]
    rows: list[Sequence[str]] = [("operator", "before", "after")]
    for op_type in sorted(before["by_type"].keys() | after["by_type"].keys()):
        counts = [str(side["by_type"].get(op_type, 0)) for side in (before, after)]
        rows.append((op_type, *counts))
    totals = {"all": "total", "sequence operators": "sequences", "loops and maps": "loops"}
    for title, key in totals.items():
        rows.append((title, str(before[key]), str(after[key])))
    return rows


def _target_block(record: Record) -> _Block:
    wanted = " and ".join([f"target {record['target']}", *record["require"]])
    if record["reached"]:
        return _Block(f"{wanted}: {_how_reached(record['loading'])}")
    items = []
    for first, *others in _by_cause(record["unreached"]):
        node = f"{first['node']} ({first['op_type']}): " if first["node"] else ""
        details = [told(first["remedy"], tried=record["remedies_tried"])]
        if others:
            counts = collections.Counter(left["op_type"] for left in others)
            named = ", ".join(f"{count} {op_type}" for op_type, count in counts.items())
            details.insert(0, f"and {len(others)} more for this reason: {named}")
        items.append(_Item(f"{node}{first['reason']}", list(filter(None, details))))
    return _Block(f"{wanted}: not reached, left", items)


def _by_cause(unreached: Sequence[Record]) -> list[list[Record]]:
    """Put together what is left for one cause, and can be taken away by one remedy."""
    groups: dict[Any, list[Record]] = {}
    for number, left in enumerate(unreached):
        key = (left["cause"], left["remedy"]) if left["cause"] else number
        groups.setdefault(key, []).append(left)
    return list(groups.values())


def _how_reached(loading: Record | None) -> str:
    if loading is None:
        return "reached; checked for sequences and control flow, not loaded"
    how = "reached in all but the version" if loading["by_version"] else "reached"
    return f"{how}; {loading['sentence']}"
