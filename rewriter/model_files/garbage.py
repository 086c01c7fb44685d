"""How often Python looks for unreachable cycles while a model is rewritten.

A model is a web of nodes and values that refer to each other, and all of it is reachable: each
look at it finds nothing, and takes a sixth of the time that a large model takes.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["seldom_collected"]

_NEW_OBJECTS = 50_000
"""So many may be made between two looks at the young ones; Python's own number is 700."""

_lock = threading.Lock()
_found: list[tuple[int, int, int]] = []
"""What was set before each block that runs now; threads may run several."""


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Let Python look for cycles less often in a block; who turned that off is left alone."""
    with _lock:
        _found.append(gc.get_threshold())
        first, second, third = _found[0]
        if first:
            gc.set_threshold(max(first, _NEW_OBJECTS), second, third)
    try:
        yield
    finally:
        with _lock:
            before = _found[0]
            _found.pop()
            if not _found:
                gc.set_threshold(*before)
