"""A plugin of pytest that writes down which functions of ``passes/`` each test calls.

It is a plugin of the run that ``python -m tests.mutation`` starts first, in a copy of the project.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

__all__ = ["FILE"]

FILE = "MUTATION_TOUCHED"
"""Environment variable that names the file to write."""

_FOLDER = "passes/"
_tests: dict[str, dict[str, object]] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the calls of one test, and how long it takes."""
    root = f"{item.config.rootpath}/"
    seen: set[CodeType] = set()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        seen.add(frame.f_code)

    before, start = sys.gettrace(), time.perf_counter()
    sys.settrace(trace)
    yield
    sys.settrace(before)
    called = {
        f"{code.co_filename.removeprefix(root)}:{code.co_qualname}"
        for code in seen
        if code.co_filename.startswith(root + _FOLDER)
    }
    _tests[item.nodeid] = {
        "seconds": time.perf_counter() - start,
        "functions": sorted(called),
        "changed": item.path.stat().st_mtime,
    }


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Write the file behind the last test of each file, so that what is learnt is kept."""
    if nextitem is None or nextitem.path != item.path:
        Path(os.environ[FILE]).write_text(json.dumps(_tests))
