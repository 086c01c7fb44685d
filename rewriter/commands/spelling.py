"""Reads words of the command line, and suggests known ones for those that are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rewriter.errors import suggestion
from rewriter.target_table import ALIASES

__all__ = ["join_tensor_io", "with_suggestion"]

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+)")


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
