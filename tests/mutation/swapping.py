"""Puts the code of a mutant into functions that are loaded already, where that is the same."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.mutants import Mutant

__all__ = ["swap_of"]


def swap_of(mutant: Mutant, root: Path) -> Callable[[], None] | None:
    """Return what makes a loaded function the mutant's.

    None where loading the file with the change may be something else: it is outside of functions,
    or in what a function is defined by (the default of a parameter).

    Args:
        mutant: The change.
        root: The project whose modules are loaded.
    """
    function = _loaded(mutant)
    if function is None:
        return None
    file = root / mutant.path
    before = compile(ast.unparse(ast.parse(file.read_text())), file, "exec")
    as_it_is = [*_codes(before, function.__qualname__)]
    changed = [*_codes(compile(mutant.source, file, "exec"), function.__qualname__)]
    if len(changed) != 1 or changed == as_it_is:
        return None
    (code,) = changed
    if code.co_freevars != function.__code__.co_freevars:
        return None
    return functools.partial(setattr, function, "__code__", code)


def _loaded(mutant: Mutant) -> FunctionType | None:
    """Return the function of a module or class that a mutant is in."""
    parts = Path(mutant.path).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    found: object = sys.modules.get(name)
    for part in mutant.function.partition(".<locals>")[0].split("."):
        found = getattr(found, "__dict__", {}).get(part)
    for inside in ("__func__", "fget", "func", "__wrapped__"):
        found = getattr(found, inside, found)
    return found if isinstance(found, FunctionType) else None


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    """Yield the code of the functions of a qualified name."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == name:
                yield inner
            yield from _codes(inner, name)
