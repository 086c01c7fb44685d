"""``seqmap explain-code CODE``: what a code means, an example, and what can be done about it."""

from __future__ import annotations

import argparse

from passes.decisions import Code
from passes.errors import RewriteError
from rewriter.commands.console import Console
from rewriter.errors import suggestion
from rewriter.reporting.code_pages import page_of, page_text

__all__ = ["USAGE", "add_options", "execute"]

USAGE = "[CODE ...] "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("codes", nargs="*", metavar="CODE", help="default: all")


def execute(args: argparse.Namespace, console: Console) -> int:
    """Print what codes mean.

    Raises:
        RewriteError: There is no such code.
    """
    known = {code.value: code for code in Code}
    for name in args.codes:
        if name not in known:
            near = suggestion(name, known) or f"; the codes are {', '.join(known)}"
            raise RewriteError(f"there is no code {name!r}{near}")
    shown = [known[name] for name in args.codes] or list(Code)
    console.record["codes"] = [
        {
            "code": code.value,
            "meaning": code.meaning,
            "remedy": code.remedy,
            "page": page_of(code),
        }
        for code in shown
    ]
    for code in shown:
        short = f"{code.value}\n  {code.meaning}\n  remedy: {code.remedy}"
        console.say(page_text(code) if args.codes else short)
    return 0
