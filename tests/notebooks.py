"""The pages of the gallery as Jupyter notebooks, with what their blocks print."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

__all__ = ["notebook", "notebook_of", "write_notebooks"]

_CELL = re.compile(
    r"^```python\n(?P<code>.*?)^```\n\n<!-- prints -->\n```\n(?P<printed>.*?)^```\n<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"^\[As a notebook\].*\n\n", re.MULTILINE)
_START = 'import os\n\nos.chdir("../..")  # the models lie at the root of the checkout'
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook(text: str) -> str:
    """Return a page of the gallery as a notebook: text, code, and what the code prints."""
    text = _LINK.sub("", text)
    cells = [_code(_START, "")]
    end = 0
    for found in _CELL.finditer(text):
        cells += [_markdown(text[end : found.start()]), _code(found["code"], found["printed"])]
        end = found.end()
    cells.append(_markdown(text[end:]))
    cells[:2] = cells[1::-1]
    kept = [cell for cell in cells if cell["source"]]
    named = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(kept)]
    record = {
        "cells": named,
        "metadata": {"kernelspec": _KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str, printed: str) -> dict[str, Any]:
    outputs = [{"name": "stdout", "output_type": "stream", "text": _lines(printed)}]
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": outputs if printed else [],
        "source": _lines(text),
    }


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def notebook_of(page: pathlib.Path) -> pathlib.Path:
    """Return where the notebook of a page lies."""
    return page.with_suffix(".ipynb")


def write_notebooks(pages: list[pathlib.Path]) -> list[str]:
    """Write the notebooks of all pages; return the names of those that changed."""
    changed = []
    for page in pages:
        place, text = notebook_of(page), notebook(page.read_text("utf-8"))
        if not place.exists() or place.read_text("utf-8") != text:
            place.write_text(text, "utf-8")
            changed.append(place.name)
    return changed
