"""RESULTS.md: what ``python -m benchmarks`` writes, and the sections that other programs do."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

__all__ = ["RESULTS", "row", "write", "write_gpu"]

RESULTS = pathlib.Path(__file__).with_name("RESULTS.md")
_GPU = "## On a GPU"


def write(lines: Sequence[str]) -> None:
    """Write all but the section of the GPU, which stays as it is."""
    _, gpu = _split()
    RESULTS.write_text("\n".join([*lines, gpu]), encoding="utf-8")


def write_gpu(lines: Sequence[str]) -> None:
    """Write the section of the GPU, the last one, and leave the others as they are."""
    before, _ = _split()
    section = "\n".join([_GPU, "", *lines, ""])
    RESULTS.write_text(f"{before.rstrip()}\n\n{section}", encoding="utf-8")


def row(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def _split() -> tuple[str, str]:
    """Return the text before the section of the GPU, and that section."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    before, mark, section = text.partition(_GPU + "\n")
    return before, mark + section
