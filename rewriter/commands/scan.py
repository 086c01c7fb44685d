"""``seqmap scan DIR``: which models hold maps, loops or sequences, and what becomes of them."""

from __future__ import annotations

import argparse
import collections
import copy
import os
from pathlib import Path
from typing import Any

from rewriter.commands import many, options, values
from rewriter.commands.console import Console
from rewriter.reporting.alike import each_once
from rewriter.reporting.headline import told_counts, told_held

__all__ = [
    "COUNTED",
    "USAGE",
    "add_jobs_option",
    "add_options",
    "execute",
    "say_summary",
    "told_left",
    "told_maps",
    "told_result",
]

USAGE = "DIR|FILE|PATTERN ... "
COUNTED = "an If that asks for shapes holds several forms of one map: all count, one runs"


_NOTHING = ("-", "-", told_counts({"loops": 0, "sequences": 0}))
_NOT_REACHED = 4
_RESULTS = {0: "passed", 1: "unusable", 3: "not verified", _NOT_REACHED: "not reached"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "models",
        metavar="DIR",
        nargs="+",
        type=values.model_path,
        help="folders, searched at any depth; files; or patterns such as '*.onnx'",
    )
    options.add_rewrite_options(options.rewrite_group(parser))
    add_jobs_option(parser)


def add_jobs_option(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add how many models are worked on at the same time."""
    parser.add_argument(
        "--jobs",
        type=values.count,
        default=1,
        metavar="N",
        help="models at the same time; default: 1",
    )


def execute(args: argparse.Namespace, console: Console) -> int:
    """Explain every model; print a line for each that holds something, or cannot be used.

    Returns:
        The highest of their statuses: 4 where a target or a requirement is not reached, 1 where
        a file cannot be used.
    """
    found = many.find_models(args.models)
    every = [_explaining(args, path) for path in found]
    with console.progress("scanning") as move:
        records = many.run_each(every, args.jobs, many.counted(found, move))
    rows: list[tuple[str, ...]] = [("model", "holds", "becomes", "left", "result")]
    for path, one in zip(found, records, strict=True):
        told = _told(one)
        if console.is_verbose or one["status"] or told != _NOTHING:
            rows.append((os.fspath(path), *told, told_result(one)))
    return say_summary(list(found), records, rows, console)


def say_summary(
    paths: list[Path], records: list[many.Record], rows: list[Any], console: Console
) -> int:
    """Print how many models came out well, and a table of them.

    Args:
        paths: The models.
        records: What became of each.
        rows: The rows of the table, the first with the names of its columns.
        console: Where it is printed.

    Returns:
        The highest status.
    """
    console.record["models"] = [
        {"model": str(path), **one} for path, one in zip(paths, records, strict=True)
    ]
    failed = sum(one["status"] != 0 for one in records)
    holding = sum(bool(one.get("report", {}).get("maps")) for one in records)
    console.say(
        f"{len(records)} model{'s' * (len(records) != 1)}: {holding} with maps, "
        f"{len(records) - failed} passed, {failed} failed"
    )
    if len(rows) > 1:
        console.table(rows)
    if left_out := len(records) + 1 - len(rows):
        console.say(
            f"{left_out} hold{'s' * (left_out == 1)} no map, no loop, no sequence; -v lists all"
        )
    if any("guarded" in told_maps(one["report"]) for one in records if "report" in one):
        console.say(COUNTED)
    for one, path in zip(records, paths, strict=True):
        if one["status"]:
            told = one.get("error", "failed")
            console.warn(told if str(path) in told else f"{path}: {told}")
    if any(one["status"] == _NOT_REACHED for one in records):
        console.say("seqmap explain MODEL with the same options says what is left and what helps")
    return many.worst(records)


def told_maps(report: many.Record) -> str:
    """Return how many maps have which verdict."""
    counts = collections.Counter(entry["verdict"] for entry in each_once(report["maps"]))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "-"


def told_left(report: many.Record) -> str:
    """Return what is left of loops and sequences in the new model."""
    return told_counts(report["operators"]["after"])


def told_result(record: many.Record) -> str:
    """Return what the status of one model means."""
    return _RESULTS.get(record["status"], "failed")


def _told(record: many.Record) -> tuple[str, str, str]:
    report = record.get("report")
    if report is None:
        return ("-", "-", "-")
    held = told_held(report["operators"]["before"])
    return (held or "-", told_maps(report), told_left(report))


def _explaining(args: argparse.Namespace, path: Path) -> argparse.Namespace:
    one = copy.copy(args)
    one.command, one.models, one.raised, one.report = "explain", [path], False, None
    one.tries = False
    return one
