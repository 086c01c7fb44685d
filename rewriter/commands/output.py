"""The options that every command has: help, and what it prints."""

from __future__ import annotations

import argparse

__all__ = ["add_output_options", "output_group"]


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what is printed."""
    group = output_group(parser)
    group.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    group.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    volume = group.add_mutually_exclusive_group()
    volume.add_argument(
        "-q", "--quiet", action="store_true", help="print the last line and warnings only"
    )
    volume.add_argument("-v", "--verbose", action="store_true", help="log passes and times")


def output_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Return the group of options for what is written and printed, made when first asked for."""
    found = [group for group in parser._action_groups if group.title == "output"]
    return found[0] if found else parser.add_argument_group("output")
