"""Ends a run of onnxruntime when its time is over."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from rewriter.run_watch import OverBudgetError, RunWatch

__all__ = ["run_watched"]


def run_watched(session: Any, feeds: Mapping[str, Any], watch: RunWatch) -> list[Any]:
    """Run a session once; onnxruntime looks after each node whether it has to end.

    Raises:
        OverBudgetError: The time was over before the run.
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
    try:
        return list(session.run(None, dict(feeds), options))
    except Exception as error:
        if ended.is_set():
            raise OverBudgetError("its share of the time is over") from error
        raise
    finally:
        timer.cancel()
