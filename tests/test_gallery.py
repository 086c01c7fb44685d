"""The gallery: each page is run, and prints what stands in it."""

from __future__ import annotations

import pathlib

import pytest

from tests.gallery import PAGES, run_anew


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_stands_in_it(page: pathlib.Path) -> None:
    text = page.read_text("utf-8")
    assert text.count("```python\n") == text.count("<!-- prints -->\n") > 0
    assert run_anew(text) == text, "run python -m tests.readme_blocks --write"


def test_a_page_that_prints_something_else_is_noticed() -> None:
    cell = "```python\nprint(1)\n```\n\n<!-- prints -->\n```\n2\n```\n<!-- end -->\n"
    assert run_anew(cell) == cell.replace("\n2\n", "\n1\n")
