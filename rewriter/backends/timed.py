"""Ends a run of onnxruntime when its time is over, or its memory does not suffice."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rewriter.evaluator.run_watch import OverBudgetError, RunWatch

__all__ = ["run_watched"]

_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
_STATM = Path("/proc/self/statm")


def run_watched(session: Any, feeds: Mapping[str, Any], watch: RunWatch) -> list[Any]:
    """Run a session once; onnxruntime looks after each node whether it has to end.

    Raises:
        OverBudgetError: It took more than it may.
    """
    watch.check_time()
    options = importlib.import_module("onnxruntime").RunOptions()
    ended = threading.Event()

    def end() -> None:
        ended.set()
        options.terminate = True

    timer = threading.Timer(max(watch.deadline - time.monotonic(), 0.0), end)
    timer.daemon = True
    timer.start()
    room = contextlib.nullcontext() if watch.is_gauged else _limited_memory(watch.memory)
    try:
        with room:
            return list(session.run(None, dict(feeds), options))
    except Exception as error:
        if ended.is_set():
            raise OverBudgetError("its share of the time is over") from error
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
            size = f"{watch.memory / 2**20:.0f} MB"
            raise OverBudgetError(f"onnxruntime would need more than {size}") from error
        raise
    finally:
        timer.cancel()


@contextlib.contextmanager
def _limited_memory(size: int) -> Iterator[None]:
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
