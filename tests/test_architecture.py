"""ARCHITECTURE.md names only what is there."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def test_every_path_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"\b(?:passes|rewriter|tests|docs)/[\w./]*\w", text))
    assert len(named) > 25
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_file_that_is_called_by_its_name_alone_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+\.py)`", text))
    there = {
        path.name
        for room in ("passes", "rewriter", "tests")
        for path in (ROOT / room).rglob("*.py")
    }
    assert len(named) > 15
    assert sorted(named - there) == []
