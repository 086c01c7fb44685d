"""A report as text and Markdown, from its plain record (``Report.to_dict``).

The record is first laid out as blocks (a heading with paragraphs, a list, or a table), then each
format writes the blocks its own way, so that both say the same.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.reporting.alike import kinds_of, title, told_others, told_parts
from rewriter.reporting.blocks import Block, Item, promise_items, target_block, tensor_items
from rewriter.reporting.number_columns import number_columns
from rewriter.reporting.printable import printable
from rewriter.reporting.remedies import told
from rewriter.reporting.render_proof import feed_rows, proof_lines
from rewriter.reporting.report_tables import (
    bench_rows,
    boundary_rows,
    environment_rows,
    model_rows,
    operator_rows,
)

__all__ = ["codes_of", "later_blocks", "to_markdown", "to_text"]

Record = Mapping[str, Any]


def to_text(record: Record, *, verbose: bool = True) -> str:
    """Return the report for a terminal: the answer, then one line for a map, its reasons below.

    Args:
        record: The report.
        verbose: Whether assumptions, sizes and operators are told too.
    """
    lines = [printable(record["headline"])]
    for block in _blocks(record, verbose=verbose):
        below = ":" if block.items or block.rows else ""
        lines.append(f"{block.heading}{below}")
        for item in block.items:
            lines.append(f"  {item.line}")
            lines.extend(f"      {detail}" for detail in item.details)
        lines.extend(_aligned(block.rows))
    return "\n".join(lines) + "\n"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if is_number else str.ljust for is_number in number_columns(rows)]
    lines = []
    for row in rows:
        cells = [side(cell, n) for side, cell, n in zip(sides, row, widths, strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def to_markdown(record: Record) -> str:
    """Return the report as Markdown."""
    lines = ["# seqmap report", "", _markdown(printable(record["headline"])), ""]
    for block in _blocks(record):
        lines += [f"## {_markdown(block.heading)}", ""]
        for item in block.items:
            lines.append(f"- {_markdown(item.line)}")
            lines.extend(f"  - {_markdown(detail)}" for detail in item.details)
        for number, row in enumerate(block.rows):
            lines.append("| " + " | ".join(_markdown(cell) for cell in row) + " |")
            if number == 0:
                sides = ("---:" if one else "---" for one in number_columns(block.rows))
                lines.append(f"| {' | '.join(sides)} |")
        lines.append("")
    return "\n".join(lines)


_MARKDOWN_ESCAPES = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|"})


def _markdown(text: str) -> str:
    return text.translate(_MARKDOWN_ESCAPES)


def later_blocks(record: Record) -> list[Block]:
    """Return what stands behind the maps: promises, assumptions, placement, the target."""
    blocks = []
    if promises := promise_items(record["promises"]):
        blocks.append(Block("promises", promises))
    if passed := tensor_items(record["tensor_io"]):
        blocks.append(Block("sequences as tensors", passed))
    blocks += [
        Block(title, [Item(line) for line in record[title]])
        for title in ("assumptions", "warnings")
        if record[title]
    ]
    if placement := record["placement"]:
        heading, *lines = _placement_lines(placement, record["target"])
        blocks.append(Block(heading, [Item(line) for line in lines]))
    return [block.printable() for block in [*blocks, target_block(record)]]


def _blocks(record: Record, *, verbose: bool = True) -> list[Block]:
    kinds = kinds_of(record["maps"], each=verbose)
    maps = [_map_item(entry, others, tried=record["remedies_tried"]) for entry, others in kinds]
    blocks = [Block(_maps_heading(record), maps).printable()] if maps or verbose else []
    if verbose and (codes := codes_of(record)):
        blocks.append(Block(f"what the codes mean: seqmap explain-code {' '.join(codes)}"))
    *later, target = later_blocks(record)
    blocks += [block for block in later if verbose or block.heading != "assumptions"]
    if verbose:
        blocks.append(Block("model", rows=model_rows(record)).printable())
        if rows := boundary_rows(record):
            blocks.append(Block("shapes at the maps", rows=rows).printable())
        blocks.append(Block("operators", rows=operator_rows(record["operators"])).printable())
    loading = record["loading"]
    is_plain = loading is None or (loading["outcome"] == "loaded" and not loading["reason"])
    if verbose or not record["reached"] or not is_plain:
        blocks.append(target)
    if verbose and (proof := record["verification"]):
        items = [Item(line) for line in proof_lines(proof)]
        blocks.append(Block("verification", items, feed_rows(proof)).printable())
    if verbose and (bench := record["bench"]):
        blocks.append(Block("timings", rows=bench_rows(bench)))
    if verbose:
        blocks.append(Block("environment", rows=environment_rows(record)))
    return blocks


def codes_of(record: Record) -> list[str]:
    """Return the codes in a report, each once."""
    reasons = (reason for entry in record["maps"] for reason in entry["reasons"])
    return list(dict.fromkeys(reason["code"] for reason in reasons))


def _maps_heading(record: Record) -> str:
    count = len(record["maps"])
    heading = f"maps (strategy {record['strategy']})" if count else "no maps"
    return f"{heading}, nothing to do" if record["nothing_to_do"] else heading


def _map_item(entry: Record, others: Sequence[str], *, tried: bool) -> Item:
    verdict = f"{entry['verdict']}: {entry['form']}" if entry["form"] else entry["verdict"]
    details = [_reason_line(reason, tried=tried) for reason in entry["reasons"]]
    details += [*entry["notes"], *(_remedy_line(remedy) for remedy in entry["remedies"])]
    details += [*told_parts(entry.get("parts", ())), *told_others(others)]
    return Item(f"{title(entry)}  {'each ' * (entry['copies'] > 1)}{verdict}", details)


def _reason_line(reason: Record, *, tried: bool) -> str:
    node = f"{reason['node']} ({reason['op_type']}): " if reason["node"] else ""
    count = len(reason["dependents"])
    behind = f", and {count} nodes that depend on it" if count > 1 else ""
    behind = ", and 1 node that depends on it" if count == 1 else behind
    why = f"{node}{reason['code']}: {reason['detail']}{behind}"
    return "; ".join(filter(None, [why, told(reason["remedy"], tried=tried)]))


def _remedy_line(remedy: Record) -> str:
    return f"remedy: {remedy['text']} (tried: {remedy['effect']})"


_SHOWN = 12
"""Reasons that are told one by one."""
_SETTINGS = {
    "ep.webgpuexecutionprovider.enableInt64": "which computes int64 in 32 bits",
    "session.layer_assignment_settings": "which keeps loops on the host that would copy",
}
"""What an entry of the session's configuration does."""


def _placement_lines(placement: Record, target: str) -> list[str]:
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
    told = [_placement_line(reason, operators) for reason, operators in together.items()]
    lines += told[:_SHOWN]
    if len(told) > _SHOWN:
        lines.append(f"and {len(told) - _SHOWN} more reasons")
    lines += [
        f"{one['path']}: {_count(one['copies'], 'copy')} in each iteration"
        for one in placement["loops_that_copy"]
    ]
    lines += [
        f"with {key} = {value} in the session's configuration, {_SETTINGS[key]}"
        for key, value in placement["settings"].items()
    ]
    return [*lines, *filter(None, [placement["note"]])]


def _placement_line(reason: str, operators: list[tuple[str, list[str]]]) -> str:
    if len(operators) == 1 and len(operators[0][1]) == 1:
        op, (path,) = operators[0]
        return f"{path} ({op}) on the host: {reason}"
    named = ", ".join(f"{len(paths)} {op}" for op, paths in operators)
    return f"{named} on the host: {reason}"


def _count(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what.removesuffix('y')}ies" if what.endswith("y") else f"{count} {what}s"
