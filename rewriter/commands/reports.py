"""Showing a report, and writing it to a file."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import shlex
from pathlib import Path

import onnx_ir as ir

from rewriter.commands.console import Console
from rewriter.model_files import files, protos
from rewriter.reporting.report import Report, Result

__all__ = ["add_report_option", "deliver_report", "measured", "write_report"]

_SUFFIXES = (".json", ".md", ".html")


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
        console.say(report.to_text(verbose=console.is_verbose))
    for warning in report.warnings if args.quiet else ():
        console.warn(warning)
    if args.report is not None:
        write_report(report, args, console)


def write_report(report: Report, args: argparse.Namespace, console: Console) -> None:
    """Write a report where ``--report`` says; the suffix says in which form.

    Raises:
        ModelError: The file cannot be written.
    """
    path: Path = args.report
    if path.suffix == ".html":
        command = shlex.join(["seqmap", *console.words])
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        text = report.to_html(title=_title(args), command=command, date=date)
    else:
        text = report.to_json() if path.suffix == ".json" else report.to_markdown()
    files.write(text.encode(), path)


def measured(
    result: Result[ir.Model], path: Path, args: argparse.Namespace, console: Console
) -> Report:
    """Return a report with the sizes of both model files, where somebody reads them.

    Weights in other files are left out.

    Args:
        result: The report, and the new model, which is not written yet.
        path: The file of the model as given; standard input has no size.
        args: The options.
        console: Where the report goes.
    """
    report = result.report
    if not (console.is_verbose or args.json or args.report):
        return report
    given, new = report.given, report.new
    if path.is_file():
        given = dataclasses.replace(given, file_bytes=path.stat().st_size)
    count = len(files.encode(protos.to_proto(result.model), path))
    new = dataclasses.replace(new, file_bytes=count)
    return dataclasses.replace(report, given=given, new=new)


def _title(args: argparse.Namespace) -> str:
    """Return the name of the model file; empty where it is standard input."""
    (path,) = getattr(args, "models", None) or [args.input]
    return "" if path == Path("-") else path.name


def _report_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in _SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} ends in none of {', '.join(_SUFFIXES)}")
    return path
