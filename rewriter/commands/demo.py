"""``seqmap demo``: what seqmap does, on models that come with it."""

from __future__ import annotations

import argparse
import io
import sys

from rewriter import demo
from rewriter.commands.console import Console

__all__ = ["SUMMARY", "USAGE", "add_options", "execute"]

USAGE = ""
SUMMARY = "rewrite, verify and run four models, most of which onnxruntime refuses as they are"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: none beside those of all commands."""


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run the demo, its lines appearing as it goes."""
    out = io.StringIO() if args.json or args.quiet else sys.stdout
    status = demo.demo(out)
    if args.json and isinstance(out, io.StringIO):
        console.record["text"] = out.getvalue()
    return status
