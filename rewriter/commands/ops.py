"""``seqmap ops``: the table of batching rules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import passes.batching.flat.flat_rules
import passes.batching.packed.rules
import passes.batching.rules  # noqa: F401 - fills the table
from passes.batching.table import (
    Decomposed,
    Row,
    Unsupported,
    has_flat_rule,
    has_packed_rule,
    rows,
)
from passes.errors import RewriteError
from rewriter.commands import options
from rewriter.commands.console import Console
from rewriter.errors import suggestion
from rewriter.rule_files import load_plugins

__all__ = ["USAGE", "add_options", "execute"]

USAGE = "[OPERATOR ...] "
_OPENED = "a function without a rule; its nodes are batched"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="default: all")
    parser.add_argument(
        "--markdown", action="store_true", help="print tables of operators by rule, in Markdown"
    )
    options.add_rules_option(parser)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print every row that was asked for; an operator that has none is an error."""
    load_plugins()
    wanted = {name.lower(): name for name in args.operators}
    shown = [row for row in rows() if not wanted or _names(row) & wanted.keys()]
    known = {name for row in shown for name in _names(row)}
    unknown = sorted(name for lower, name in wanted.items() if lower not in known)
    if unknown:
        raise RewriteError(
            f"no rule is listed for {', '.join(unknown)}; seqmap ops without names lists all"
            f"{suggestion(unknown[0], (row.op_type for row in rows()))}"
        )
    console.record["operators"] = [_record(row) for row in shown]
    if args.markdown:
        console.say(_markdown(shown))
        return 0
    width = max(len(_name(row)) for row in shown)
    for row in shown:
        console.say(f"{_name(row).ljust(width)}  {_line(row)}")
    return 0


def _name(row: Row | Unsupported | Decomposed) -> str:
    return f"{row.domain}::{row.op_type}" if row.domain else row.op_type


def _names(row: Row | Unsupported | Decomposed) -> set[str]:
    """Return what an operator is called, with its domain and without, in small letters."""
    return {row.op_type.lower(), _name(row).lower()}


def _line(row: Row | Unsupported | Decomposed) -> str:
    if isinstance(row, Unsupported):
        return f"never: {row.reason} ({row.code.value})"
    if isinstance(row, Decomposed):
        return f"opened: {_OPENED}"
    packed = ", packed" * has_packed_rule(row) + ", flat" * has_flat_rule(row)
    return f"{row.family}, opset {_opsets(row)}, {_marks(row)}{packed}"


def _opsets(row: Row) -> str:
    return f"{row.since} to {row.until}" if row.until else f"from {row.since}"


def _marks(row: Row) -> str:
    return ", ".join(["rounding" if row.rounding else "exact"] + ["discrete"] * row.discrete)


def _markdown(shown: Sequence[Row | Unsupported | Decomposed]) -> str:
    """Return a table of the rules, operators that are alike in one row, and one of the rest."""
    rules: dict[tuple[str, ...], list[str]] = {}
    reasons: dict[tuple[str, ...], list[str]] = {}
    for row in shown:
        if isinstance(row, Unsupported):
            reasons.setdefault((row.reason, f"`{row.code.value}`"), []).append(_name(row))
        elif isinstance(row, Decomposed):
            rules.setdefault(("opened", _OPENED), []).append(_name(row))
        else:
            bounded = row.since > 1 or row.until
            name = f"{_name(row)} ({_opsets(row)})" if bounded else _name(row)
            rules.setdefault((row.family, _marks(row)), []).append(name)
    lines = ["| rule | operators (opset) | results |", "| --- | --- | --- |"]
    lines += [
        f"| {family} | {', '.join(names)} | {marks} |"
        for (family, marks), names in sorted(rules.items())
    ]
    packed = [_name(row) for row in shown if isinstance(row, Row) and has_packed_rule(row)]
    if packed:
        lines += ["", f"Packed samples, too: {', '.join(packed)}."]
    flat = [_name(row) for row in shown if isinstance(row, Row) and has_flat_rule(row)]
    if flat:
        lines += ["", f"Samples that differ along several axes, too: {', '.join(flat)}."]
    lines += ["", "| never batched | why | code |", "| --- | --- | --- |"]
    lines += [
        f"| {', '.join(names)} | {reason} | {code} |" for (reason, code), names in reasons.items()
    ]
    return "\n".join(lines)


def _record(row: Row | Unsupported | Decomposed) -> dict[str, object]:
    if isinstance(row, Unsupported):
        return {"operator": _name(row), "never": row.reason, "code": row.code.value}
    if isinstance(row, Decomposed):
        return {"operator": _name(row), "opened": True}
    return {
        "operator": _name(row),
        "rule": row.family,
        "since": row.since,
        "until": row.until,
        "rounding": row.rounding,
        "discrete": row.discrete,
        "packed": has_packed_rule(row),
        "flat": has_flat_rule(row),
    }
