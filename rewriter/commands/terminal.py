"""Lines for a terminal: wrapped at its width, verdicts in colour."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TextIO

__all__ = ["coloured", "has_colour", "wrapped"]

_GREEN, _YELLOW, _RED, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
_COLOURS = {
    "fused": _GREEN,
    "unrolled": _GREEN,
    "passed": _GREEN,
    "guarded": _YELLOW,
    "fissioned": _YELLOW,
    "expanded": _YELLOW,
    "kept": _YELLOW,
    "failed": _RED,
}
_VERDICT = re.compile(rf"^(  \S.*\)  |)({'|'.join(_COLOURS)})\b", re.MULTILINE)
_LEAST = 40
"""Columns below which wrapping makes nothing easier to read."""


def has_colour(stream: TextIO) -> bool:
    """Return whether a stream shows colours and its user wants them.

    ``NO_COLOR`` and ``FORCE_COLOR`` mean what https://no-color.org says.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Return lines in which the verdict on a map, or of a command, has a colour."""
    return _VERDICT.sub(lambda m: f"{m[1]}{_COLOURS[m[2]]}{m[2]}{_PLAIN}", text)


def wrapped(text: str, width: int) -> str:
    """Return lines of at most so many columns, what is wrapped indented by two more.

    A word that is longer than a line, such as a path, stays whole.
    """
    if width < _LEAST:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        words = line.lstrip()
        indent = line[: len(line) - len(words)]
        inner = textwrap.wrap(
            words,
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        lines += inner if len(line) > width else [line]
    return "\n".join(lines)
