"""``seqmap ops``: the table of batching rules."""

from __future__ import annotations

import argparse

import passes.batching.rules  # noqa: F401 - fills the table
from passes.batching.table import Never, Row, rows
from passes.errors import RewriteError
from rewriter.commands.console import Console

__all__ = ["SUMMARY", "USAGE", "add_options", "execute"]

USAGE = "[OPERATOR ...] "
SUMMARY = "list what becomes of each operator in the body of a map"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="default: all")


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print a line for each row; an operator that was asked for and has none is an error."""
    wanted = set(args.operators)
    shown = [row for row in rows() if not wanted or row.op_type in wanted]
    unknown = sorted(wanted - {row.op_type for row in shown})
    if unknown:
        raise RewriteError(
            f"no rule is listed for {', '.join(unknown)}; seqmap ops without names lists all"
        )
    console.record["operators"] = [_record(row) for row in shown]
    width = max(len(_name(row)) for row in shown)
    for row in shown:
        console.say(f"{_name(row).ljust(width)}  {_line(row)}")
    return 0


def _name(row: Row | Never) -> str:
    return f"{row.domain}::{row.op_type}" if row.domain else row.op_type


def _line(row: Row | Never) -> str:
    if isinstance(row, Never):
        return f"never: {row.reason} ({row.code.value})"
    opsets = f"{row.since} to {row.until}" if row.until else f"from {row.since}"
    marks = ["rounding" if row.rounding else "exact"] + ["discrete"] * row.discrete
    return f"{row.family}, opset {opsets}, {', '.join(marks)}"


def _record(row: Row | Never) -> dict[str, object]:
    if isinstance(row, Never):
        return {"operator": _name(row), "never": row.reason, "code": row.code.value}
    return {
        "operator": _name(row),
        "rule": row.family,
        "since": row.since,
        "until": row.until,
        "rounding": row.rounding,
        "discrete": row.discrete,
    }
