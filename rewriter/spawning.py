"""Starts processes that do not run the caller's script once more."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Iterator

__all__ = ["without_a_script"]

_STARTING = threading.Lock()
"""Held while a process starts: `without_a_script` changes what all threads see."""


@contextlib.contextmanager
def without_a_script() -> Iterator[None]:
    """Let processes that are started meanwhile not run the caller's script once more.

    A new process imports the module `__main__` of the one that starts it. A script without
    ``if __name__ == "__main__"`` would call the command again there.
    """
    with _STARTING:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script
