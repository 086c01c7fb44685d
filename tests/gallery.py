"""The pages of the gallery: notebooks in Markdown, whose blocks are run and whose results stand in
the page.

A block of Python is followed by what it prints, between ``<!-- prints -->`` and ``<!-- end -->``.
All blocks of a page share their names.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import tempfile
from typing import Any

__all__ = ["FOLDER", "PAGES", "run_anew", "write_pages"]

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "gallery"
PAGES = sorted(FOLDER.glob("*.md"))
_CELL = re.compile(
    r"(^```python\n(.*?)^```\n\n<!-- prints -->\n).*?(^<!-- end -->$)", re.MULTILINE | re.DOTALL
)


def run_anew(text: str) -> str:
    """Run the blocks of a page in a folder with the models; return it with what they print."""
    names: dict[str, Any] = {}

    def cell(found: re.Match[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(found[2], names)  # a page of ours
        return f"{found[1]}```\n{out.getvalue().rstrip()}\n```\n{found[3]}"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pathlib.Path("models").symlink_to(ROOT / "models")
        return _CELL.sub(cell, text)


def write_pages() -> list[str]:
    """Run all pages and write what they print; return the names of those that changed."""
    changed = []
    for page in PAGES:
        old = page.read_text("utf-8")
        if (new := run_anew(old)) != old:
            page.write_text(new, "utf-8")
            changed.append(page.name)
    return changed
