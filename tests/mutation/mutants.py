"""Small wrong changes of a Python file, found and made in its syntax tree."""

from __future__ import annotations

import ast
import copy
import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

__all__ = ["Mutant", "drawn", "mutants_of"]

_Lines: TypeAlias = tuple[int, int] | None
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One wrong change.

    Attributes:
        path: The file, from the root of the project.
        function: Qualified name of the function that it is in, empty outside of all.
        line: Where it is.
        lines: First and last line of what has to run for it to matter, from the function's first;
            None outside of all.
        kind: What is changed.
        change: The code before and after.
        source: The whole file with the change.
    """

    path: str
    function: str
    line: int
    lines: _Lines
    kind: str
    change: str
    source: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        """Return one line for a report."""
        return f"{self.path}:{self.line} {self.function or '(module)'}: {self.kind}: {self.change}"


@dataclasses.dataclass(frozen=True)
class _Change:
    """A change that may be made: ``old`` gives place to ``new``."""

    function: str
    lines: _Lines
    kind: str
    old: ast.AST
    new: ast.AST
    place: Callable[[ast.AST], None]


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.UnaryOp(ast.Not(), node)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield each kind of change of one node, and the node that takes its place."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        changed = copy.deepcopy(node)
        changed.test = _negated(changed.test)
        yield "condition negated", changed
    if isinstance(node, ast.comprehension):
        for i in range(len(node.ifs)):
            other = copy.deepcopy(node)
            other.ifs[i] = _negated(other.ifs[i])
            yield "condition negated", other
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in _SWAPPED:
                moved = copy.deepcopy(node)
                moved.ops[i] = _SWAPPED[type(op)]()
                yield "bound moved", moved
    if isinstance(node, ast.BoolOp):
        swapped = copy.deepcopy(node)
        swapped.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or swapped", swapped
        for i in range(len(node.values)):
            rest = node.values[:i] + node.values[i + 1 :]
            yield "asks less", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and len(node.elts) > 1:
        for i in range(len(node.elts)):
            shorter = copy.deepcopy(node)
            del shorter.elts[i]
            yield "item dropped", shorter
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth flipped", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        # The first of one is the last, too.
        for more in (1, -1) if node.value else (1,):
            yield "number changed", ast.Constant(node.value + more)


def _within(
    node: ast.AST, function: str = "", scope: str = "", first: int = 0, lines: _Lines = None
) -> Iterator[_Change]:
    """Yield the changes of what a node holds.

    Args:
        node: The node.
        function: Qualified name of the function around it.
        scope: What stands before the qualified names of functions in it.
        first: The line that this function begins at.
        lines: The lines of the statement of it that the node belongs to.
    """
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child, place in _children(node, name, value):
            if _is_left_alone(child):
                continue
            around = _lines(child, first) or lines if function else None
            for kind, new in _changes(child):
                yield _Change(function, around, kind, child, new, place)
            if isinstance(child, ast.FunctionDef):
                inner = f"{scope}{child.name}"
                begins = min(n.lineno for n in (child, *child.decorator_list))
                whole = _lines(child, begins)
                yield from _within(child, inner, f"{inner}.<locals>.", begins, whole)
            elif isinstance(child, ast.ClassDef):
                yield from _within(child, function, f"{scope}{child.name}.", first, around)
            else:
                yield from _within(child, function, scope, first, around)


def _lines(node: ast.AST, first: int) -> _Lines:
    """Return the lines of a statement, of its head only where others are in it; None of no other.

    A default of a parameter counts for the whole function, whose body reads it.

    Args:
        node: The statement.
        first: The line to count from.
    """
    if not isinstance(node, ast.stmt):
        return None
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.If | ast.While | ast.For | ast.With):
        last = max(node.lineno, node.body[0].lineno - 1)
    return node.lineno - first, last - first


def _children(
    node: ast.AST, name: str, value: object
) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Yield the nodes of a field, each with how another one is put in its place."""
    if isinstance(value, ast.AST):
        yield value, lambda new: setattr(node, name, new)
    elif isinstance(value, list):
        for i, child in enumerate(value):
            if isinstance(child, ast.AST):
                yield child, lambda new, i=i: value.__setitem__(i, new)  # type: ignore[misc]


def _is_left_alone(node: ast.AST) -> bool:
    """Whether a change there changes no behaviour, or is no wrong program."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Delete):
        return True
    if isinstance(node, ast.Tuple | ast.List) and not isinstance(node.ctx, ast.Load):
        return True
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets)


def _short(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        node = node.test
    return " ".join(ast.unparse(node).split())[:100]


def _made(path: str, tree: ast.Module, change: _Change) -> Mutant:
    change.place(change.new)
    source = ast.unparse(ast.fix_missing_locations(tree))
    change.place(change.old)
    old = change.old.target if isinstance(change.old, ast.comprehension) else change.old
    line = getattr(old, "lineno", 0)
    words = f"{_short(change.old)}  ->  {_short(change.new)}"
    return Mutant(path, change.function, line, change.lines, change.kind, words, source)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file.

    Args:
        path: The file, from the root of the project.
        source: What it holds.
    """
    tree = ast.parse(source)
    return [_made(path, tree, change) for change in _within(tree)]


def drawn(root: Path, folder: str, number: int, seed: int) -> list[Mutant]:
    """Draw mutants of the files of a folder, as many of one kind of change as of another.

    Args:
        root: The project.
        folder: The folder in it.
        number: How many.
        seed: The same seed draws the same mutants of the same files.
    """
    kinds: dict[str, list[tuple[str, ast.Module, _Change]]] = {}
    for file in sorted((root / folder).rglob("*.py")):
        path, tree = file.relative_to(root).as_posix(), ast.parse(file.read_text())
        for change in _within(tree):
            kinds.setdefault(change.kind, []).append((path, tree, change))
    rng = random.Random(seed)
    left = [rng.sample(kinds[kind], len(kinds[kind])) for kind in sorted(kinds)]
    found: list[Mutant] = []
    while len(found) < number and any(left):
        found += [_made(*changes.pop()) for changes in left if changes]
    return found[:number]
