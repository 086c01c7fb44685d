"""``seqmap explain IN``: where every map is, what would be done with it, and why."""

from __future__ import annotations

import argparse

from rewriter import models, pipeline
from rewriter.commands import options, reports
from rewriter.commands.console import Console
from rewriter.raised_text import raised_text
from rewriter.targets import TargetError

__all__ = ["SUMMARY", "USAGE", "add_options", "execute"]

USAGE = "IN "
SUMMARY = "say what optimize would do with every map, and why; changes nothing"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "input", "IN", "the model, .onnx or .onnxtxt")
    options.add_rewrite_options(parser)
    reports.add_report_option(parser)
    parser.add_argument(
        "--raised",
        action="store_true",
        help="print the model with its Loops and Scans raised to maps instead",
    )


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print the report, or the raised model.

    Raises:
        TargetError: The target or what ``--require`` asks for would not be reached.
    """
    options.refuse_overwriting(args.report, reads=[args.input])
    with console.progress("reading"):
        model = models.load(args.input)
    if args.raised:
        text, raised = raised_text(model, **options.rewrite_options(args))
        console.record["raised"] = raised
        console.say(text)
        return 0
    with console.progress("deciding"):
        report = pipeline.explain(model, **options.rewrite_options(args))
    reports.deliver_report(report, args, console)
    if not report.reached:
        raise TargetError(report)
    return 0
