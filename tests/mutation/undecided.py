"""A plugin of pytest that lists the conditions of ``passes/`` that no test of a run decides.

An operand of ``and`` or ``or`` is decided where leaving it out changes what the whole yields, a
default at its end where it is reached; a bound where both sides of it occur, and it itself. A mutant there survives whatever the tests ask.
The list is written to the file that the environment variable ``MUTATION_UNDECIDED`` names, a line
each; with pytest-xdist every worker writes one of its own, and what stands in all of them counts.
``python -m tests.mutation --undecided`` runs the tests with it.
"""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.mutation.loading import load_by

__all__ = ["FILE", "NAMES", "undecided", "watched"]

FILE = "MUTATION_UNDECIDED"
"""Environment variable that names the file to write."""

_ORDERS: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], int]] = {
    ast.Lt: (operator.lt, -1),
    ast.GtE: (operator.ge, -1),
    ast.Gt: (operator.gt, 1),
    ast.LtE: (operator.le, 1),
}
"""How to compare, and how far the value beside the bound is from it that changes the answer."""

_places: list[tuple[str, set[str]]] = []
"""Where each condition stands, and what no test has shown of it yet."""


def _operands(place: int, ends: bool, is_default: bool, *operands: Callable[[], Any]) -> Any:
    """Yield what ``and`` or ``or`` yields, and note which operand decides it.

    Args:
        place: The condition.
        ends: What an operand is that makes the rest unread: true for ``or``.
        is_default: Whether the last operand is one value whatever the others are.
        operands: How each operand is computed.
    """
    missing = _places[place][1]
    value = None
    *first, last = operands
    for i, operand in enumerate(first):
        value = operand()
        if bool(value) is ends:
            if str(i) in missing and _all_go_on(operands[i + 1 :], ends):
                missing.discard(str(i))
            return value
    value = last()
    if missing and (is_default or _is(value, ends)):
        missing.discard(str(len(first)))
    return value


def _is(value: Any, truth: bool) -> bool:
    try:
        return bool(value) is truth
    except ValueError:
        # An array is no condition, but may be what the whole yields.
        return True


def _all_go_on(operands: Sequence[Callable[[], Any]], ends: bool) -> bool:
    try:
        return all(bool(operand()) is not ends for operand in operands)
    except Exception:
        # Without the operand before it this one fails, and a test sees that.
        return True


def _bound(place: int, kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """Yield what a comparison yields, and note whether its bound occurs."""
    missing = _places[place][1]
    compare, beside = _ORDERS[kind]
    if missing:
        if _is(left == right, True):
            missing.discard("=")
        if isinstance(left, int) and isinstance(right, int) and left - right == beside:
            missing.discard("+")
    return compare(left, right)


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Tuple) and not node.elts)


class _Watch(ast.NodeTransformer):
    """Puts calls in the place of conditions."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _call(self, function: str, node: ast.expr, missing: set[str], *more: ast.expr) -> ast.expr:
        place = ast.Constant(len(_places))
        _places.append((f"{self._path}:{node.lineno}: {ast.unparse(node)}", missing))
        name = ast.Name(function, ast.Load())
        return ast.copy_location(ast.Call(name, [place, *more], []), node)

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """Leave what is asserted alone: it has to hold, and no mutant changes it."""
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Watch the operands of ``and`` and ``or``."""
        text = ast.copy_location(ast.parse(ast.unparse(node), mode="eval").body, node)
        self.generic_visit(node)
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node
        nothing = ast.arguments([], [], None, [], [], None, [])
        read = [ast.Lambda(nothing, value) for value in node.values]
        missing = {str(i) for i in range(len(read))}
        ends = ast.Constant(isinstance(node.op, ast.Or))
        is_default = ast.Constant(_is_literal(node.values[-1]))
        call = self._call("_watch_operands", text, missing, ends, is_default, *read)
        return ast.fix_missing_locations(call)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Watch the bounds of what is compared by size."""
        text = ast.copy_location(ast.parse(ast.unparse(node), mode="eval").body, node)
        self.generic_visit(node)
        kind = type(node.ops[0])
        if len(node.ops) > 1 or kind not in _ORDERS:
            return node
        numbers = any(
            isinstance(side, ast.Constant) and type(side.value) is int
            for side in (node.left, node.comparators[0])
        )
        missing = {"=", "+"} if numbers else {"="}
        named = ast.Name(f"_watch_{kind.__name__}", ast.Load())
        call = self._call("_watch_bound", text, missing, named, node.left, node.comparators[0])
        return ast.fix_missing_locations(call)


NAMES: dict[str, object] = {
    "_watch_operands": _operands,
    "_watch_bound": _bound,
    **{f"_watch_{kind.__name__}": kind for kind in _ORDERS},
}
"""What a file whose conditions are watched calls."""


def watched(path: str, source: str) -> CodeType:
    """Compile a file so that its conditions are watched; it calls what `NAMES` holds.

    Args:
        path: The file.
        source: What it holds.
    """
    return compile(_Watch(path).visit(ast.parse(source)), path, "exec")


if FILE in os.environ:
    load_by(watched, NAMES)


def undecided(root: str = "") -> list[str]:
    """Return the conditions that nothing has decided so far, in the order of their files.

    Args:
        root: What the names of all files begin with, which is left out.
    """
    return [
        f"{where.removeprefix(root)} [{what}]"
        for where, missing in _places
        for what in sorted(missing)
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what no test decided."""
    if FILE not in os.environ:
        return
    lines = undecided(f"{session.config.rootpath}/")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    Path(f"{os.environ[FILE]}{worker}").write_text("".join(f"{line}\n" for line in lines))
