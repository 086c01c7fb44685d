"""Watches one run of a model: how long it takes, how large its values get, what runs in it."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from passes.errors import RewriteError
from rewriter.evaluator.result_sizes import least_result_bytes

__all__ = [
    "Lender",
    "OverBudgetError",
    "RunWatch",
    "current_watch",
    "trying",
    "watched",
    "watching",
]

_STATM = Path("/proc/self/statm")
_LOOKED_EVERY = 0.001
"""Seconds between two looks at the memory that is held; asking takes as long as a small node."""

Lender = Callable[[onnx.ModelProto, dict[str, Any]], dict[str, Any]]
"""A function that runs a model of one node on its inputs, and returns its outputs by name."""


class OverBudgetError(RewriteError):
    """A run was stopped: it took more time or memory than it may."""


class RunWatch:
    """The bounds of one run, and what was seen of it.

    Attributes:
        deadline: When the run has to end, by ``time.monotonic``.
        memory: The bytes that its values may take.
        is_gauged: Whether the same run is known to stay within the memory.
        lender: Runs a model of one node in the evaluator's place; None where its values judge.
        ran: The maps and loops whose bodies have run, each by the name of an output.
    """

    def __init__(
        self,
        deadline: float,
        memory: int,
        *,
        is_gauged: bool = False,
        lender: Lender | None = None,
    ) -> None:
        self.deadline = deadline
        self.memory = memory
        self.is_gauged = is_gauged
        self.lender = lender
        self.ran: set[str] = set()
        self._base = self._resident = _resident_bytes()
        self._looked = time.monotonic()

    def check_time(self) -> None:
        """Raise OverBudgetError if the time is over."""
        self._time()

    def _time(self) -> float:
        now = time.monotonic()
        if now >= self.deadline:
            raise OverBudgetError("its share of the time is over")
        return now

    def check_node(self, node: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> None:
        """Raise OverBudgetError if the time is over, or the results of a node are too large.

        Args:
            node: The node that is about to run.
            opset: The version of its operators.
            inputs: The values that it reads.
        """
        now = self._time()
        if now - self._looked >= _LOOKED_EVERY:
            self._resident, self._looked = _resident_bytes(), now
        held = max(self._resident - self._base, 0)
        needed = least_result_bytes(node, opset, inputs, self.memory - held)
        if held + needed > self.memory:
            raise OverBudgetError(
                f"{node.op_type} {node.name!r} would take the values beyond "
                f"{self.memory / 2**20:.0f} MB"
            )


_WATCH: contextvars.ContextVar[RunWatch | None] = contextvars.ContextVar("watch", default=None)


def current_watch() -> RunWatch | None:
    """Return what watches the present run, None where nothing does."""
    return _WATCH.get()


@contextlib.contextmanager
def watching(
    deadline: float, memory: int, *, is_gauged: bool = False, lender: Lender | None = None
) -> Iterator[RunWatch]:
    """Watch every run within the block.

    Args:
        deadline: When the run has to end, by ``time.monotonic``.
        memory: The bytes that its values may take.
        is_gauged: Whether the same run is known to stay within the memory.
        lender: Runs a model of one node in the evaluator's place; None where its values judge.
    """
    watch = RunWatch(deadline, memory, is_gauged=is_gauged, lender=lender)
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


@contextlib.contextmanager
def trying() -> Iterator[None]:
    """Try inputs that a model may not accept: what could end the process runs in another one."""
    deadline = time.monotonic() + threading.TIMEOUT_MAX
    with watching(deadline, sys.maxsize, is_gauged=True):
        yield


def watched(run: Callable[..., Any], node: onnx.NodeProto, opset: int) -> Callable[..., Any]:
    """Return the function that runs a node, unless what watches the run stops it."""

    def run_watched(*inputs: Any, **options: Any) -> Any:
        if watch := current_watch():
            watch.check_node(node, opset, inputs)
        return run(*inputs, **options)

    return run_watched


def _resident_bytes() -> int:
    """Return the memory that this process holds, 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError, AttributeError):
        return 0
