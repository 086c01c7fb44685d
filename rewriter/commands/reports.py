"""Showing a report, and writing it to a file."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from rewriter import files
from rewriter.commands.console import Console
from rewriter.report import Report

__all__ = ["add_report_option", "deliver_report"]

_WRITERS = {".json": Report.to_json, ".md": Report.to_markdown, ".html": Report.to_html}


def add_report_option(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add ``--report``."""
    parser.add_argument(
        "--report",
        type=_report_path,
        metavar="FILE",
        help="write the report to FILE.json, FILE.md or FILE.html",
    )


def deliver_report(report: Report, args: argparse.Namespace, console: Console) -> None:
    """Print the report, record it for ``--json``, and write it where ``--report`` says.

    Under ``--quiet`` its warnings go to stderr.

    Raises:
        ModelError: The file cannot be written.
    """
    if console.is_read:
        with console.progress("trying remedies"):
            console.record["report"] = report.to_dict()
        # The commands say what the verification showed, once it has ended well or not.
        console.say(dataclasses.replace(report, verification=None).to_text())
    for warning in report.warnings if args.quiet else ():
        console.warn(warning)
    if args.report is None:
        return
    files.write(_WRITERS[args.report.suffix](report).encode(), args.report)


def _report_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in _WRITERS:
        raise argparse.ArgumentTypeError(f"{text!r} ends in none of {', '.join(_WRITERS)}")
    return path
