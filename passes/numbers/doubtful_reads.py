"""Whether numbers of a vector are followed that it may not have: behind its end a Slice is empty.

Most such reads are offsets, which a vector has. Where it may lack them, they are data like any
other: labels that are cut out one by one.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative, not_more

__all__ = ["are_followed", "is_in_range", "not_followed"]

_FOLLOWED: contextvars.ContextVar[bool] = contextvars.ContextVar("followed", default=True)


def are_followed() -> bool:
    """Whether such reads are followed, and noted."""
    return _FOLLOWED.get()


@contextlib.contextmanager
def not_followed() -> Iterator[None]:
    """Let evaluators that are made inside follow no such reads."""
    token = _FOLLOWED.set(False)
    try:
        yield
    finally:
        _FOLLOWED.reset(token)


def is_in_range(position: Linear, size: Linear, last: Linear | None) -> bool:
    """Whether a position is surely less than a size, in all iterations up to the last one."""
    farthest = last if position.coefficient(ITERATION) > 0 else Linear()
    if farthest is None:
        return False
    return is_nonnegative(not_more(size - 1 - position.replace({ITERATION: farthest})))
