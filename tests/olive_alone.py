"""Olive without PyTorch and what else it needs: ``python -m tests.olive_alone`` fetches it.

Olive's own code is the released one, a few megabytes from PyPI. It imports PyTorch and transformers
whatever pass it runs; a pass that needs neither runs with empty classes in their place. It is
looked for in ``.olive`` at the root of the checkout.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Sequence
from typing import Any

__all__ = ["FOLDER", "enter", "fetch", "is_there"]

FOLDER = pathlib.Path(__file__).parents[1] / ".olive"
_PACKAGE = "olive-ai~=0.13.0"
_ABSENT = (
    "huggingface_hub",
    "opentelemetry",
    "optuna",
    "pandas",
    "questionary",
    "requests",
    "torch",
    "torchmetrics",
    "transformers",
)
"""What Olive imports and our pass does not need."""


def is_there() -> bool:
    """Whether Olive is installed, or was fetched."""
    return bool(importlib.util.find_spec("olive")) or (FOLDER / "olive").is_dir()


def fetch() -> None:
    """Install Olive alone into the folder.

    Raises:
        subprocess.CalledProcessError: The package cannot be had.
    """
    words = ["install", "--quiet", "--no-deps", "--target", str(FOLDER), _PACKAGE]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300)


def enter() -> None:
    """Let this process import Olive; for a process of its own, which has no PyTorch then."""
    os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
    if importlib.util.find_spec("olive") is None:
        sys.path.append(str(FOLDER))
        sys.meta_path.append(_Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a stand-in for a package that is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in _ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing."""


class _AnyName(type):
    """A class whose attributes are such classes, whatever their names."""

    def __getattr__(cls, name: str) -> Any:
        return _stand_in(name)


class _Empty(metaclass=_AnyName):
    """Stands for a class, or for a decorator, which it is made as."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any arguments."""

    def __call__(self, decorated: Any) -> Any:
        return decorated


class _Module(types.ModuleType):
    """A module that holds every name."""

    def __getattr__(self, name: str) -> Any:
        return _stand_in(name)


def _stand_in(name: str) -> type[_Empty]:
    if name.startswith("__"):
        raise AttributeError(name)
    return _AnyName(name, (_Empty,), {})


if __name__ == "__main__":
    if not is_there():
        fetch()
