"""Progress: who works says where the work is, and a listener hears it."""

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
    """Let a listener hear what `tell` says inside of the block, in the place of one before it."""
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
