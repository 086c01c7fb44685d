"""Starts processes that neither run the caller's script once more nor see Ctrl-C."""

from __future__ import annotations

import contextlib
import multiprocessing.resource_tracker
import signal
import sys
import threading
import types
from collections.abc import Iterator

__all__ = ["deaf_to_interrupts", "without_a_script"]

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


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile not see Ctrl-C, where the system can do that."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # With the first process Python starts a further one, behind which no signal is held back.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
