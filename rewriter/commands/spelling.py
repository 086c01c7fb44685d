"""Reads words of the command line, and suggests known ones for those that are not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from rewriter.target_table import ALIASES

__all__ = ["join_tensor_io", "suggestion", "with_suggestion"]

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+)")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` for the nearest known word, empty where none is near."""
    by_folded = {one.casefold(): one for one in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[close[0]]!r}?" if close else ""


def with_suggestion(message: str, options: Iterable[str]) -> str:
    """Return what argparse says of a word, with the word that may have been meant.

    Args:
        message: The message.
        options: The options of the command.
    """
    if found := _CHOICE.search(message):
        known = [name.strip(" '") for name in found[2].split(",")]
        shorts = [name for name, whole in ALIASES.items() if whole in known]
        return message + suggestion(found[1], [*known, *shorts])
    if found := _UNKNOWN.search(message):
        return message + suggestion(found[1], options)
    return message


_TENSORS = "--tensor-io=tensors"


def join_tensor_io(words: Sequence[str]) -> list[str]:
    """Join ``--tensor-io`` with what it asks for, so that it takes no model's name for that."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == _TENSORS and word == "triton":
            joined[-1] = "--tensor-io=triton"
        else:
            joined.append(_TENSORS if word == "--tensor-io" else word)
    return joined
