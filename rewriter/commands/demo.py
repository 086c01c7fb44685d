"""``seqmap demo``: what seqmap does, on models that come with it."""

from __future__ import annotations

import argparse
import io

from rewriter import demo
from rewriter.commands.console import Console

__all__ = ["USAGE", "add_options", "execute"]

USAGE = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: none beside those of all commands."""


def execute(args: argparse.Namespace, console: Console) -> int:
    """Run the demo, its lines appearing as it goes."""
    outcomes = demo.show(_Lines(console))
    console.record["models"] = [outcome.to_dict() for outcome in outcomes]
    return 0 if all(outcome.passed for outcome in outcomes) else 3


class _Lines(io.StringIO):
    """Text that is shown as it comes."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        self._console.say(text)
        return len(text)
