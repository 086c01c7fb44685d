"""A plugin of pytest that writes down which lines of ``passes/`` each test runs.

It is a plugin of the run that ``python -m tests.mutation`` starts first, in a copy of the project.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

__all__ = ["FILE", "Touched", "read", "write"]

FILE = "MUTATION_TOUCHED"
"""Environment variable that names the file to write."""

_FOLDER = "passes/"
_known: dict[tuple[str, int], int] = {}
_lines: list[str] = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the lines that one test runs, and how long it takes."""
    root = f"{item.config.rootpath}/"
    ours = root + _FOLDER
    seen: dict[CodeType, set[int]] = {}
    left: dict[CodeType, int] = {}

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if code not in left:
            lines = {line for *_, line in code.co_lines() if line}
            left[code] = len(lines) if code.co_filename.startswith(ours) else 0
        return lines_of if left[code] else None

    def lines_of(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        code, line = frame.f_code, frame.f_lineno
        lines = seen.setdefault(code, set())
        if line not in lines:
            lines.add(line)
            left[code] -= 1
        return lines_of

    before, start = sys.gettrace(), time.perf_counter()
    sys.settrace(trace)
    yield
    sys.settrace(before)
    masks: dict[str, int] = {}
    for code, lines in seen.items():
        name = f"{code.co_filename.removeprefix(root)}:{code.co_qualname}"
        mask = sum(1 << (line - code.co_firstlineno) for line in lines)
        masks[name] = masks.get(name, 0) | mask
    touched = Touched(time.perf_counter() - start, item.path.stat().st_mtime, masks)
    _lines.append(_line(item.nodeid, touched, _known))


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Write what is learnt behind the last test of each file, so that it is kept."""
    if nextitem is None or nextitem.path != item.path:
        with Path(os.environ[FILE]).open("a") as file:
            file.writelines(_lines)
        _lines.clear()


class Touched(NamedTuple):
    """What was seen of one test.

    Attributes:
        seconds: How long it took.
        changed: When its file was changed last.
        masks: The lines that it runs of each function, ``path:qualified name``: bit 0 is the first.
    """

    seconds: float
    changed: float
    masks: dict[str, int]


def _line(test: str, touched: Touched, known: dict[tuple[str, int], int]) -> str:
    """Return what a file holds of a test.

    Args:
        test: The test.
        touched: What was seen of it.
        known: What the lines before it named, and each one's number; new ones are added.
    """
    new = [item for item in touched.masks.items() if item not in known]
    known |= {item: number for number, item in enumerate(new, len(known))}
    numbers = [known[item] for item in touched.masks.items()]
    return f"{json.dumps([test, touched.seconds, touched.changed, new, numbers])}\n"


def read(file: Path) -> dict[str, Touched]:
    """Return what was seen of each test, by its name; nothing if there is no such file."""
    items: list[tuple[str, int]] = []
    tests: dict[str, Touched] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        test, seconds, changed, new, numbers = json.loads(line)
        items += [(name, mask) for name, mask in new]
        tests[test] = Touched(seconds, changed, dict(items[number] for number in numbers))
    return tests


def write(file: Path, tests: dict[str, Touched]) -> None:
    """Write what was seen of tests."""
    known: dict[tuple[str, int], int] = {}
    file.write_text("".join(_line(test, touched, known) for test, touched in tests.items()))
