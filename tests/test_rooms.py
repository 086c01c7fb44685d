"""The page of each folder of the packages: what happens there, and where to start reading."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = [
    path.parent.relative_to(ROOT)
    for package in ("passes", "rewriter")
    for path in sorted((ROOT / package).rglob("__init__.py"))
]
FEW = 4
"""A folder of so many files, its page among them, needs no guide."""


def test_each_room_says_where_to_start() -> None:
    elsewhere = {"passes", "rewriter", "rewriter/backends"}
    for room in ROOMS:
        page = ROOT / room / "__init__.py"
        told = ast.get_docstring(ast.parse(page.read_text("utf-8"))) or ""
        assert told, room
        start = told.partition("Start with ")[2]
        is_large = len(list(page.parent.glob("*.py"))) > FEW
        assert start or not is_large or room.as_posix() in elsewhere, room
        for name in re.findall(r"`([\w.]+)`", start):
            place = ROOT / name.replace(".", "/") if "." in name else page.parent / name
            assert place.is_dir() or place.with_suffix(".py").exists(), (room, name)
