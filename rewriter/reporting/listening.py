"""Where the work is: those who do it say it, and whoever listens is told."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

__all__ = ["heard_by", "tell"]

Listener = Callable[[str], None]

_LISTENER: contextvars.ContextVar[Listener | None] = contextvars.ContextVar(
    "listener", default=None
)


@contextlib.contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Hand every place that is told to a listener, and to nobody else."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(place: str) -> None:
    """Say where the work is, in words such as ``pass 3 of 17, FuseSequenceMapPass``."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(place)
