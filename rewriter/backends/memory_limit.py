"""Lets allocations beyond a size fail, for what cannot be asked how much it will take."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["limited_memory"]

_STATM = Path("/proc/self/statm")


@contextlib.contextmanager
def limited_memory(size: int) -> Iterator[None]:
    """Let this process allocate no more than a size on top of what it holds, within the block.

    Only Linux can do so; elsewhere the block runs without a limit.
    """
    try:
        resource = importlib.import_module("resource")
        held = int(_STATM.read_bytes().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError, ValueError, IndexError):
        yield
        return
    limit = held + size
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
