"""Text that a model or a command line brought along, made fit to be shown.

A name may hold line ends, escape sequences of terminals, or marks that turn the direction of the
text. Wherever one is shown, such characters are written as escapes.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

__all__ = ["columns", "json_text", "printable"]


def printable(text: str, keep: str = "") -> str:
    r"""Return a text in which what is not printable is escaped, as in ``\x1b`` or ``\u202e``.

    Args:
        text: The text.
        keep: Characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: letters of East Asia take two."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def json_text(record: Mapping[str, Any], encoding: str = "utf-8") -> str:
    """Return a record as JSON that shows no control characters.

    Args:
        record: Plain values.
        encoding: Where the text goes; what it cannot hold is escaped as JSON escapes it.
    """
    text = json.dumps(record, indent=2, ensure_ascii=False)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(c if _is_plain(c, encoding) else json.dumps(c)[1:-1] for c in text)


def _is_plain(char: str, encoding: str) -> bool:
    if char == "\n" or (char.isascii() and char.isprintable()):
        return True
    if not char.isprintable():
        return False
    try:
        char.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
