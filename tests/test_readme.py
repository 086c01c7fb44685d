"""README.md, CONTRIBUTING.md and docs: commands and snippets run, tables are up to date."""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

import rewriter
from passes.decisions import Verdict
from rewriter import cli
from rewriter.pipeline import STRATEGIES
from tests.readme_blocks import PAGES, PARTS, README, ROOT, part_of

TEXT = README.read_text("utf-8")
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}


REGISTERS = ("register(", 'TARGETS["', 'BACKENDS["')
"""What a snippet says that changes the process for those that follow."""


class Block(NamedTuple):
    """One fenced block: its language, what is in it, and the line in front of it."""

    language: str
    content: str
    marker: str


def blocks(text: str) -> list[Block]:
    found = re.findall(r"^([^\n]*)\n```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(language, content, marker) for marker, language, content in found]


BLOCKS = blocks(TEXT)
SETUPS = [block for block in BLOCKS if block.marker in ("<!-- demo -->", "<!-- tests -->")]
EVERY = [block for text in TEXTS.values() for block in blocks(text)]
COMMANDS = [block.content for block in EVERY if block.language == "sh" and block not in SETUPS]
# The pages of the gallery are run by tests/test_gallery.py, block after block.
SINGLE = [text for name, text in TEXTS.items() if not name.startswith("docs/gallery/")]
SNIPPETS = [
    block.content
    for text in [*SINGLE, (ROOT / "CONTRIBUTING.md").read_text("utf-8")]
    for block in blocks(text)
    if block.language == "python"
]


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder to work in, with the models."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    shutil.copy(ROOT / "models" / "demo" / "dy_hstack.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_shell(command: str, place: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-eu", "-c", command],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert TEXT.count("\n```") == 2 * len(BLOCKS)
    assert {block.language for block in BLOCKS} == {"sh", "python", "text"}
    written = [block for block in EVERY if block.language == "text"]
    assert {block.marker for block in written} == {"<!-- explain -->"}
    # C++ and JavaScript are run by tests/test_other_languages.py. What is in no language cannot be
    # run here: other programs, and parts of files.
    assert {block.language for block in EVERY} == {"sh", "python", "text", "cpp", "js", ""}
    assert [block.language for block in EVERY].count("cpp") == 3
    assert [block.language for block in EVERY].count("js") == 3
    assert len(SETUPS) == 2
    assert len(COMMANDS) >= 12
    assert len(SNIPPETS) >= 12


def test_the_front_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.long
@pytest.mark.quick  # each of them, not one in so many
@pytest.mark.parametrize("block", COMMANDS, ids=lambda text: text.splitlines()[0][:60])
@pytest.mark.usefixtures("place")
def test_commands(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in block.splitlines():
        command, *words = shlex.split(line)
        assert command == "seqmap"
        assert cli.main(words) == 0, f"{line}: {capsys.readouterr().err}"


@pytest.mark.long
@pytest.mark.quick  # each of them, not one in so many
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda text: text.splitlines()[-1][:60])
def test_snippets(snippet: str, place: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    if any(word in snippet for word in REGISTERS):
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", snippet],
            cwd=place,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout, "a snippet shows what it does"
        return
    exec(compile(snippet, "snippet", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out, "a snippet shows what it does"


def prose(text: str) -> str:
    """Return a page without its blocks and the parts that the program writes."""
    for name in PARTS:
        if f"<!-- {name} -->" in text:
            text = text.replace(part_of(text, name), "")
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", TEXTS)
def test_figures_are_only_those_of_the_benchmarks(page: str) -> None:
    figure = r"\d(?:[\d.,]*\d)?\s?(?:ms|milliseconds?|s|seconds?|x(?! \d)|times|MB|GB|%)\b"
    assert re.findall(figure, prose(TEXTS[page])) == []
    assert re.findall(figure, "in 3.5 ms, 20 times, 2x") == ["3.5 ms", "20 times", "2x"]


def test_python_takes_the_options_that_are_told() -> None:
    text = prose(TEXTS["docs/reference/python.md"])
    line = next(line for line in text.splitlines() if "options of the command line by" in line)
    told = re.findall(r"`(\w+)`", line)
    for function in (rewriter.optimize, rewriter.rewrite, rewriter.explain):
        assert function.__name__ in told
        taken = set(inspect.signature(function).parameters)
        inner = {"model", "on_pass", "ceilings", "verify"}
        assert taken - inner == set(told) - {"optimize", "rewrite", "explain"}
    assert "`verify=True`" in text


@pytest.mark.parametrize("name", PARTS)
def test_what_the_program_writes_is_up_to_date(name: str) -> None:
    holding = [text for text in TEXTS.values() if f"<!-- {name} -->" in text]
    assert holding
    for text in holding:
        assert part_of(text, name) == PARTS[name](), "run python -m tests.readme_blocks --write"


def test_the_commands_for_a_fresh_machine() -> None:
    for block in SETUPS:
        (line,) = block.content.splitlines()
        steps = line.split(" && ")
        assert re.fullmatch(r"python3 -m venv \.venv(-test)?", steps[0])
        assert all(step.startswith(steps[0].split()[-1] + "/bin/") for step in steps[1:])
    assert SETUPS[0].content.endswith("/seqmap demo\n")


@pytest.mark.parametrize(
    "recipe",
    [
        "A batching rule",
        "A rule for ragged samples",
        "A rule for an operator of another domain",
        "A way to spell a loop",
        "A pattern of a carried value",
        "A target",
        "A backend",
        "An option",
        "A known defect",
    ],
)
def test_each_recipe_holds_a_snippet_that_is_run(recipe: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition(f"\n## {recipe}\n")[2].partition("\n## ")[0]
    assert [block.language for block in blocks(section)].count("python") == 1


def test_contributing_sets_up_what_the_tests_need() -> None:
    (setup,) = [
        b for b in blocks((ROOT / "CONTRIBUTING.md").read_text("utf-8")) if b.language == "sh"
    ]
    assert SETUPS[1].content.replace("install -q", "install").startswith(setup.content.rstrip())


def test_ci_runs_the_command_for_the_tests(tmp_path: pathlib.Path) -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    extraction = re.search(r"^command=\$\((awk.*?README\.md)\)$", script, re.MULTILINE | re.DOTALL)
    assert extraction is not None
    shutil.copy(README, tmp_path)
    assert in_shell(extraction[1], tmp_path).stdout == SETUPS[1].content


def test_every_command_verdict_and_strategy_is_told() -> None:
    for name in cli.COMMANDS:
        commands = TEXTS["docs/reference/cli.md"]
        assert re.search(rf"^\| `seqmap {name}\b", commands, re.MULTILINE), name
    for page, words in (
        ("README.md", list(Verdict)),
        ("docs/guide/report.md", list(Verdict)),
        ("docs/guide/promises.md", STRATEGIES),
    ):
        told = re.findall(r"^\| `(\w+)` \|", TEXTS[page], re.MULTILINE)
        assert told[: len(words)] == [str(word) for word in words]


def test_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    helps = ""
    for words in ([], *([name] for name in cli.COMMANDS)):
        with pytest.raises(SystemExit):
            cli.main([*words, "--help"])
        helps += capsys.readouterr().out
    told = "".join(prose(text) for text in TEXTS.values())
    options = set(re.findall(r"(?<![\w!-])--[a-z][a-z-]+", told))
    assert options
    assert {option for option in options if option not in helps} == set()


@pytest.mark.parametrize("file", [*TEXTS, "CONTRIBUTING.md", "models/README.md"])
def test_links_lead_somewhere(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / file).parent / path if path else ROOT / file
        assert linked.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]
