"""The gallery: each page is run, and prints what stands in it."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
from typing import Any

import pytest

from tests.gallery import FOLDER, PAGES, run_anew
from tests.notebooks import notebook, notebook_of


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_stands_in_it(page: pathlib.Path) -> None:
    text = page.read_text("utf-8")
    assert text.count("```python\n") == text.count("<!-- prints -->\n") > 0
    assert run_anew(text) == text, "run python -m tests.readme_blocks --write"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_notebook_says_what_the_page_says(page: pathlib.Path) -> None:
    text = page.read_text("utf-8")
    assert notebook_of(page).read_text("utf-8") == notebook(text), (
        "python -m tests.readme_blocks --write"
    )
    assert f"[As a notebook]({page.stem}.ipynb)" in text


def test_a_notebook_runs_from_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    record = json.loads(notebook_of(FOLDER / "embedding-bag.md").read_text("utf-8"))
    names: dict[str, Any] = {}
    for cell in record["cells"]:
        out = io.StringIO()
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(out):
                exec("".join(cell["source"]), names)
            told = "".join(line for one in cell["outputs"] for line in one["text"])
            assert out.getvalue().rstrip() == told


def test_a_page_that_prints_something_else_is_noticed() -> None:
    cell = "```python\nprint(1)\n```\n\n<!-- prints -->\n```\n2\n```\n<!-- end -->\n"
    assert run_anew(cell) == cell.replace("\n2\n", "\n1\n")
