"""Limits the time and memory of a verification."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from passes.errors import RewriteError

__all__ = ["Allowance", "Budget", "parse_budget"]

_SECONDS = 60.0
"""The time of a verification, and the least that loading may take beside it."""
_UNKNOWN_MEMORY = 16 * 2**30
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
_SIZES = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def _quarter_of_memory() -> int:
    """Return a quarter of the memory that this machine, or its container, has."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        total = _UNKNOWN_MEMORY
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP_LIMIT.read_text()))
    return total // 4


@dataclasses.dataclass(frozen=True)
class Budget:
    """The limits of a verification.

    Attributes:
        seconds: The time for all feeds together. Loading the models has as much of its own, and
            60 s at least; what it takes beyond that counts. Where the evaluator took all of the
            time and nothing is proven, onnxruntime has half of it more.
        memory: The bytes that the values of one run may take.
    """

    seconds: float = _SECONDS
    memory: int = dataclasses.field(default_factory=_quarter_of_memory)

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf or self.memory < 0:
            raise RewriteError(
                f"the budget is {self.seconds} seconds and {self.memory} bytes: give finite "
                "numbers from 0"
            )

    def __str__(self) -> str:
        size = next((u for u in reversed(_SIZES) if self.memory >= _SIZES[u]), "KB")
        return f"{self.seconds:g} s and {self.memory / _SIZES[size]:.3g} {size}"


def parse_budget(text: str) -> Budget:
    """Read a budget such as ``60s``, ``4GB`` or ``60s,4GB``; what is left out is the default.

    Raises:
        ValueError: The text is of another form.
    """
    budget = Budget()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)", part.strip())
        if match and match[2] in _UNITS:
            budget = dataclasses.replace(budget, seconds=float(match[1]) * _UNITS[match[2]])
        elif match and match[2].upper() in _SIZES:
            size = int(float(match[1]) * _SIZES[match[2].upper()])
            budget = dataclasses.replace(budget, memory=size)
        else:
            raise ValueError(f"{text!r} is no budget: give a time, a size or both, as in 60s,4GB")
    return budget


class Allowance:
    """The rest of a budget while feeds are judged, one after the other.

    A feed may take half of the time that is left, so that one slow feed leaves some for those
    after it.

    Attributes:
        budget: The budget.
        deadline: When the present feed has had its time, by ``time.monotonic``.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._end = time.monotonic() + budget.seconds
        self.deadline = self._end
        self._loading = max(budget.seconds, _SECONDS)

    def start_feed(self) -> None:
        """Give the next feed its share of the time."""
        now = time.monotonic()
        self.deadline = now + max(self._end - now, 0.0) / 2

    def add_half(self) -> None:
        """Give all feeds together half of the time of the budget, from now on."""
        self._end = time.monotonic() + self.budget.seconds / 2

    def rest(self) -> Budget:
        """Return what is left, as a budget of its own."""
        return Budget(max(self._end - time.monotonic(), 0.0), self.budget.memory)

    @property
    def is_over(self) -> bool:
        """Whether the present feed has had its time."""
        return time.monotonic() >= self.deadline

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of a block, in which a model is loaded, as far as it is free."""
        start = time.monotonic()
        try:
            yield
        finally:
            spent = min(time.monotonic() - start, self._loading)
            self._loading -= spent
            self._end += spent
            self.deadline += spent
