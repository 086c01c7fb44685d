"""A plugin of pytest that writes down which lines of ``passes/`` each test runs.

It is a plugin of the run that ``python -m tests.mutation`` starts first, in a copy of the project.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from tests.mutation.loading import load_by

__all__ = ["FILE", "Touched", "load_marked", "passed", "read", "write"]

FILE = "MUTATION_TOUCHED"
"""Environment variable that names the file to write."""

_PASSED = "_passed"
_known: dict[tuple[str, int], int] = {}
_lines: list[str] = []
_places: list[tuple[str, int]] = []
"""The function of each run of statements, and the lines of it that they stand in, as a mask."""
_passed = bytearray()
"""Of each run of statements whether the test has come by."""


class _Marks(ast.NodeTransformer):
    """Marks the statements of functions that run one behind the other."""

    def __init__(self, path: str) -> None:
        self._path, self._function, self._scope, self._first = path, "", "", 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Mark what is in a function, by lines counted from its first."""
        outer = self._function, self._scope, self._first
        self._function = f"{self._scope}{node.name}"
        self._scope = f"{self._function}.<locals>."
        self._first = min(n.lineno for n in (node, *node.decorator_list))
        said = ast.get_docstring(node, clean=False) is not None
        node.body = [*node.body[:said], *self._marked(node.body[said:])]
        self._function, self._scope, self._first = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Find the methods."""
        outer = self._scope
        self._scope = f"{outer}{node.name}."
        node.body = [self.visit(one) for one in node.body]
        self._scope = outer
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Mark each part of a statement that holds others."""
        for name, value in ast.iter_fields(node):
            if not isinstance(value, list) or not all(isinstance(v, ast.AST) for v in value):
                continue
            is_part = self._first and all(isinstance(v, ast.stmt) for v in value)
            setattr(node, name, self._marked(value) if is_part else [*map(self.visit, value)])
        return node

    def _marked(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with marks: in front, and behind each that holds others."""
        found: list[ast.stmt] = []
        part: list[ast.stmt] = []
        for one in statements:
            part.append(one)
            if one is statements[-1] or _body(one):
                found += [self._mark(part[0], one), *map(self.visit, part)]
                part = []
        return found

    def _mark(self, first: ast.stmt, last: ast.stmt) -> ast.stmt:
        body, end = _body(last), last.end_lineno or last.lineno
        if body:
            end = max(last.lineno, body[0].lineno - 1)
        mask = (2 << end - self._first) - (1 << first.lineno - self._first)
        _places.append((f"{self._path}:{self._function}", mask))
        _passed.append(0)
        (mark,) = ast.parse(f"{_PASSED}[{len(_places) - 1}] = 1").body
        return ast.copy_location(mark, first)


def _body(statement: ast.stmt) -> Sequence[ast.AST]:
    """Return what begins what a statement holds; nothing of a plain one."""
    if isinstance(statement, ast.Match):
        return [case.pattern for case in statement.cases]
    return getattr(statement, "body", ())


def _marked(path: str, source: str) -> CodeType:
    return compile(ast.fix_missing_locations(_Marks(path).visit(ast.parse(source))), path, "exec")


def load_marked() -> None:
    """Load the modules of ``passes`` with marks from now on."""
    load_by(_marked, {_PASSED: _passed})


def passed(root: str) -> dict[str, int]:
    """Return the lines of each function that have run since the start, or the last test.

    Args:
        root: What the names of all files begin with, which is left out.
    """
    masks: dict[str, int] = {}
    for (name, mask), is_passed in zip(_places, _passed, strict=True):
        if is_passed:
            name = name.removeprefix(root)
            masks[name] = masks.get(name, 0) | mask
    return masks


if FILE in os.environ:
    load_marked()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the lines that one test runs, and how long it takes."""
    _passed[:] = bytes(len(_passed))
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    masks = passed(f"{item.config.rootpath}/")
    _lines.append(_line(item.nodeid, Touched(seconds, item.path.stat().st_mtime, masks), _known))


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
