"""Axes as a node gives them, counted from the front."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["from_front"]


def from_front(axes: Iterable[int], rank: int) -> list[int] | None:
    """Return axes as they count from the front.

    Args:
        axes: Axes; a negative one counts from the back.
        rank: How many axes there are.

    Returns:
        None if there is no such axis, which is an error that no other form may take away.
    """
    known = [int(axis) for axis in axes]
    if not all(-rank <= axis < rank for axis in known):
        return None
    return [axis % rank for axis in known]
