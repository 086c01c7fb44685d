"""Loads the modules of ``passes`` anew, with calls in them that tell what runs."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

__all__ = ["load_by"]

_PACKAGE = "passes"


def load_by(compiled: Callable[[str, str], CodeType], names: Mapping[str, object]) -> None:
    """Load each module of the package from now on as it is compiled by a function.

    Args:
        compiled: Compiles a file: its path and what it holds.
        names: What the code reads beside what the file defines.
    """
    sys.meta_path.insert(0, _Finder(compiled, names))


class _Loader(SourceFileLoader):
    def __init__(self, finder: _Finder, name: str, path: str) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType:
        """Compile the module anew: what Python keeps beside it tells nothing."""
        return self._finder.compiled(self.path, Path(self.path).read_text())

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with the names that its code reads."""
        module.__dict__.update(self._finder.names)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(
        self, compiled: Callable[[str, str], CodeType], names: Mapping[str, object]
    ) -> None:
        self.compiled, self.names = compiled, names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of the package, None for all others."""
        if fullname.partition(".")[0] != _PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(self, spec.loader.name, spec.loader.path)
        return spec
