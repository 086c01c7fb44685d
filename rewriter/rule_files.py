"""Rules from outside of the package: files that ``--rules`` names, and installed plug-ins."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import runpy
import traceback
from pathlib import Path

from onnx.reference.op_run import OpRun

from passes.errors import RewriteError
from rewriter.evaluator.reference import add_operators

__all__ = ["ENTRY_POINTS", "load_plugins", "load_rules"]

ENTRY_POINTS = "seqmap.rules"
"""The group of entry points; each is a module, or a function without arguments to call."""


def load_rules(*paths: str | os.PathLike[str]) -> None:
    """Run files of Python that register rules, in order.

    Each class of ``onnx.reference.op_run.OpRun`` that a file defines becomes an operator of the
    evaluator, so that models with it can be verified.

    Raises:
        RewriteError: A file cannot be read, or it fails.
    """
    for path in paths:
        _load(Path(path))


def _load(path: Path) -> None:
    if not path.is_file():
        raise RewriteError(f"there is no file of rules {str(path)!r}: check the path")
    try:
        names = runpy.run_path(str(path), run_name=path.stem)
    except (Exception, SystemExit) as error:
        raise RewriteError(f"the rules in {str(path)!r} fail: {_place(error, path)}") from error
    found = (value for value in names.values() if isinstance(value, type))
    add_operators(one for one in found if issubclass(one, OpRun) and one.__module__ == path.stem)


@functools.cache
def load_plugins() -> None:
    """Load the rules of installed packages, once.

    Raises:
        RewriteError: One of them fails.
    """
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            loaded = point.load()
            if callable(loaded):
                loaded()
        except (Exception, SystemExit) as error:
            package = "" if point.dist is None else f" of {point.dist.name}"
            raise RewriteError(
                f"the rules {point.name!r}{package} fail: {type(error).__name__}: {error}; update "
                "the package, or remove it"
            ) from error


def _place(error: BaseException, path: Path) -> str:
    """Return an error with the line of the file where it was raised."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        lines.append(error.lineno)
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"
