"""Finds the columns of a table that hold numbers, which stand at the right."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["number_columns"]

_NUMBER = re.compile(r"\d[\d.,e+-]*x?")
_WORDS = frozenset({"", "refused", "not finite"})
"""The text in a column of numbers where there is no number."""


def number_columns(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Return for each column whether what stands below its title are numbers.

    Args:
        rows: The rows of a table, all of one length, the titles first.
    """
    return [_are_numbers(column[1:]) for column in zip(*rows, strict=True)]


def _are_numbers(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if cell not in _WORDS]
    return bool(told) and all(_NUMBER.fullmatch(cell) for cell in told)
