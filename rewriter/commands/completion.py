"""Completion in shells, by shtab; imported when it is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import shtab

__all__ = ["SHELLS", "script"]

SHELLS: list[str] = shtab.SUPPORTED_SHELLS


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return what completes the commands, options and files of a parser in a shell."""
    _mark_files(parser)
    return shtab.complete(parser, shell)


def _mark_files(parser: argparse.ArgumentParser) -> None:
    """Tell shtab which arguments are files: those that are read as a path."""
    for one in parser._actions:
        if isinstance(one.choices, dict):
            for command in one.choices.values():
                _mark_files(command)
        elif one.type is Path or getattr(one.type, "__name__", "").endswith("path"):
            marked: Any = one
            marked.complete = shtab.FILE
