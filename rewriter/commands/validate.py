"""``seqmap validate A B``: do two models compute the same?"""

from __future__ import annotations

import argparse

from rewriter.commands import options, values, verifying
from rewriter.commands.console import Console

__all__ = ["USAGE", "add_options", "execute"]

USAGE = "A B "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "before", "A", "the model that is right by definition")
    options.add_model(parser, "after", "B", "the model to check, e.g. what optimize wrote")
    group = parser.add_argument_group("verification")
    group.add_argument(
        "--cases", type=values.count, default=8, metavar="N", help="inputs to draw; default: 8"
    )
    options.add_feed_options(group)
    options.add_tolerance_options(group)
    options.add_budget_option(group)
    options.add_rules_option(group)


def execute(args: argparse.Namespace, console: Console) -> int:
    """Compare; return 3 when they differ or nothing could be compared."""
    with console.progress("reading"):
        before, after = options.read_model(args.before), options.read_model(args.after)
    return verifying.verify(
        before,
        after,
        args,
        console,
        cases=args.cases,
        beside=args.after,
    )
