"""Tables as lines of text that fit a terminal."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from rewriter.reporting.printable import columns, printable

__all__ = ["aligned", "fitted"]

_GAP = 2
"""Columns between two cells."""
_LEAST = 8
"""Columns that a cell keeps where a table is made narrower."""

Rows = Sequence[Sequence[str]]


def aligned(rows: Rows) -> str:
    """Return the rows of a table as lines, the cells of a column below each other."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in shown
    )


def fitted(rows: Rows, width: int) -> str:
    """Return the lines of a table; where one is too wide, first cells stand above the others.

    Where that is too wide, too, cells are wrapped below themselves.
    """
    lines = aligned(rows)
    if _width(lines) <= width:
        return lines
    others = aligned([row[1:] for row in rows])
    if _width(others) + _GAP > width:
        return aligned(list(_narrowed(rows, width)))
    return "\n".join(
        f"{printable(row[0])}\n  {rest}"
        for row, rest in zip(rows, others.split("\n"), strict=True)
    )


def _width(lines: str) -> int:
    return max(map(columns, lines.split("\n")))


def _narrowed(rows: Rows, width: int) -> Iterator[list[str]]:
    """Yield the rows of a table whose widest cells are wrapped, each line as a row."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    room = width - _GAP * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    for row in rows:
        cells = [
            textwrap.wrap(printable(cell), size, break_on_hyphens=False)
            for cell, size in zip(row, widths, strict=True)
        ]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            yield list(line)
