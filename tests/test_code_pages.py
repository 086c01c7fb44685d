"""The pages of the codes: each example shows its code, and each remedy takes it away."""

from __future__ import annotations

import html
import json
from pathlib import Path

import onnx.parser
import pytest

import rewriter
from passes.decisions import Code
from rewriter.reporting.code_pages import page_text
from tests.code_pages import FOLDER, Example, explained, page_at, saved

PAGES = {code.value: page_at(code) for code in Code}
EXAMPLES = {name: page.example for name, page in PAGES.items() if page.example is not None}
MENDED = {
    f"{name} {number}": (name, example)
    for name, page in PAGES.items()
    for number, example in enumerate(page.mended)
}
WITHOUT_MODEL = {"repaired": "a rewrite that verification refutes would be a defect of ours"}


def codes_of(name: str, example: Example) -> set[str]:
    """Return the codes that the command line reports on an example."""
    with saved(name, example.model) as file:
        record = json.loads(explained(file, *example.options, "--json"))
    return {reason["code"] for one in record["report"]["maps"] for reason in one["reasons"]}


def test_every_code_has_a_page_and_an_example() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PAGES)
    assert set(PAGES) - set(EXAMPLES) == set(WITHOUT_MODEL)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_code_comes_out_of_its_example(name: str) -> None:
    assert name in codes_of(name, EXAMPLES[name])


@pytest.mark.parametrize("case", MENDED)
def test_what_to_do_takes_the_code_away(case: str) -> None:
    name, example = MENDED[case]
    assert name not in codes_of(name, example)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    page = PAGES[name]
    assert page.written_anew() == page.text, "run python -m tests.readme_blocks --write"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_parts(name: str) -> None:
    page = PAGES[name]
    assert page.text.startswith(f"# {name}\n\n<!-- code -->\n")
    assert "\n## What to do\n" in page.text
    assert len(page.text.splitlines()) < 80


@pytest.mark.parametrize("code", Code)
def test_the_command_line_tells_the_page(code: Code) -> None:
    told, text = page_text(code), PAGES[code.value].text
    assert "```" not in told
    assert "<!--" not in told
    lines = [line.strip() for line in told.splitlines()]
    for line in text.split("<!-- end -->\n", 1)[1].splitlines():
        assert line.startswith(("```", "<!--")) or line.removeprefix("## ").strip() in lines


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_report_holds_the_page_of_each_of_its_codes(name: str) -> None:
    example = EXAMPLES[name]
    with saved(name, example.model) as file:
        explained(file, *example.options, "--report", "page.html")
        page = Path("page.html").read_text("utf-8")
    assert f'<a href="#code-{name}"><code>{name}</code></a>' in page
    assert f'id="code-{name}"' in page
    assert html.escape(page_text(Code(name))) in page


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_report_names_the_command_that_tells_more(form: str) -> None:
    report = rewriter.explain(onnx.parser.parse_model(EXAMPLES["cost"].model))
    told = report.to_text(verbose=True) if form == "text" else report.to_markdown()
    assert "what the codes mean: seqmap explain-code ragged cost\n" in told
