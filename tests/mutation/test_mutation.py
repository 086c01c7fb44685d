"""The mutants themselves, and that tests of a small project tell them apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutants import drawn, mutants_of
from tests.mutation.runs import Cases, Copy
from tests.mutation.undecided import NAMES, undecided, watched

SOURCES = {
    "condition negated": ("x = 1 if a else b", "x = 1 if not a else b"),
    "bound moved": ("x = a < b", "x = a <= b"),
    "and, or swapped": ("x = a and b", "x = a or b"),
    "asks less": ("x = a and b", "x = b"),
    "item dropped": ("x = [a, b]", "x = [b]"),
    "truth flipped": ("x = True", "x = False"),
    "number changed": ("x = 1", "x = 2"),
}


@pytest.mark.parametrize(("kind", "sources"), SOURCES.items(), ids=SOURCES)
def test_a_change(kind: str, sources: tuple[str, str]) -> None:
    before, after = sources
    assert (kind, after) in [(m.kind, m.source) for m in mutants_of("a.py", before)]


@pytest.mark.parametrize(
    "source",
    [
        "import a",
        "assert a < 1",
        "zip(a, strict=True)",
        "__all__ = ['a', 'b']",
        "a, b = c",
        "def f(x: a[1, 2]): ...",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert mutants_of("a.py", source) == []


def test_a_mutant_knows_its_function() -> None:
    source = "class A:\n    def f(self):\n        def g():\n            return 1\n        return g"
    assert {m.function for m in mutants_of("a.py", source)} == {"A.f.<locals>.g"}


def test_a_mutant_knows_its_line() -> None:
    source = "x = [\n    b\n    for b in c\n    if b\n]\ny = 1"
    lines = {m.kind: m.line for m in mutants_of("a.py", source)}
    assert lines == {"condition negated": 3, "number changed": 6}


def test_the_same_seed_draws_the_same() -> None:
    root = Path(__file__).resolve().parents[2]
    assert drawn(root, "passes/loops", 9, 1) == drawn(root, "passes/loops", 9, 1)
    assert drawn(root, "passes/loops", 9, 1) != drawn(root, "passes/loops", 9, 2)


FILES = {
    "passes/__init__.py": "",
    "passes/small.py": """
def bounded(x):
    return x < 3

def partly(x):
    return x < 4

def unread(x):
    return x < 5

def at_once():
    def inner(x):
        return x < 6
    return inner

made = at_once()

def default(x, most=7 <= 7):
    return most
""",
    "tests/passes/test_small.py": """
import pytest
from passes.small import bounded, default, made, partly

def test_bound():
    assert bounded(2)
    assert not bounded(3)

@pytest.mark.parametrize("x", [3, pytest.param(4, marks=pytest.mark.full)])
def test_cases(x):
    assert partly(x) == (x == 3)

def test_made():
    assert not made(6)
    assert default(1)
""",
    "pyproject.toml": """
[tool.pytest.ini_options]
addopts = ["-m", "not full"]
markers = ["full: left out by default"]
""",
}


def _write_project(tmp_path: Path) -> None:
    plugin = Path(__file__).with_name("touched.py").read_text()
    for name, text in {**FILES, "tests/mutation/touched.py": plugin}.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_what_was_learnt_is_kept_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_project(tmp_path)
    Copy(tmp_path / "project", tmp_path / "copy", ["tests/passes"])
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(
        Copy, "_pytest", lambda self, arguments, variables: asked.append(arguments)
    )
    again = Copy(tmp_path / "project", tmp_path / "copy", ["tests/passes"])
    assert asked == []
    name = "tests/passes/test_small.py"
    tests = ["test_bound", "test_cases[3]", "test_made"]
    assert list(again._tests) == [f"{name}::{test}" for test in tests]
    os.utime(tmp_path / "project/tests/passes/test_small.py", (1, 1))
    changed = Copy(tmp_path / "project", tmp_path / "copy", ["tests/passes"])
    assert [a[-1] for a in asked] == ["tests/passes/test_small.py"]
    assert changed._tests == {}


@pytest.mark.full
def test_tests_that_reach_a_function_kill_its_mutants(tmp_path: Path) -> None:
    _write_project(tmp_path)
    project = Copy(tmp_path / "project", tmp_path / "copy", ["tests/passes"])
    mutants = drawn(tmp_path / "project", "passes", 99, 0)
    mutants = [m for m in mutants if m.kind == "bound moved"]
    at_once = {m.function: test and project.cases_of(test) for m, test in project.judged(mutants)}
    assert at_once == {"bounded": Cases.DEFAULT, "partly": Cases.LEFT_OUT, "unread": None}
    killed = {m.function: project.killed_by(m) for m in mutants}
    others = {"at_once.<locals>.inner": Cases.DEFAULT, "default": Cases.DEFAULT}
    assert killed == at_once | others
    assert project.root.joinpath("passes/small.py").read_text() == FILES["passes/small.py"]


UNDECIDED = {
    "either alone": ("a and b", [(1, 0), (0, 1)], ""),
    "the second never": ("a and b", [(0, 1), (1, 1)], "1"),
    "the first never": ("a or b", [(0, 0), (0, 1), (1, 1)], "0"),
    "both together": ("a or b", [(1, 1)], "01"),
    "a default that is reached": ("a or 0", [(1, 0), (0, 0)], ""),
    "a default that is not": ("a or 0", [(1, 0)], "1"),
    "a bound and what is beside it": ("a < 2", [(1, 0), (2, 0)], ""),
    "the bound only": ("a >= 2", [(2, 0)], "+"),
    "never the bound": ("a > b", [(1, 0)], "="),
}


@pytest.mark.parametrize(("condition", "feeds", "left"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_nothing_decides(condition: str, feeds: list[tuple[int, int]], left: str) -> None:
    known = len(undecided())
    names = dict(NAMES)
    exec(watched("a.py", f"def f(a, b):\n    return {condition}"), names)
    function: Any = names["f"]
    assert [function(a, b) for a, b in feeds] == [
        eval(condition, {"a": a, "b": b}) for a, b in feeds
    ]
    assert undecided()[known:] == [f"a.py:2: {condition} [{what}]" for what in left]
