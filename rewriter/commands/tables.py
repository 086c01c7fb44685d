"""Tables of text: cells below each other, or below the first of their row where it is narrow."""

from __future__ import annotations

from collections.abc import Sequence

from rewriter.reporting.printable import columns, printable

__all__ = ["aligned", "fitted"]

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
    """Return the lines of a table; where one is too wide, first cells stand above the others."""
    lines = aligned(rows)
    if max(map(columns, lines.split("\n"))) <= width:
        return lines
    others = aligned([row[1:] for row in rows]).split("\n")
    return "\n".join(
        f"{printable(row[0])}\n  {rest}" for row, rest in zip(rows, others, strict=True)
    )
