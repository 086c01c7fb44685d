"""Arrays of texts: what may stand in one."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["holds_texts", "untext"]


def holds_texts(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array holds texts alone.

    Runtimes make ``"None"`` of a None and ``"nan"`` of a missing value, and read bytes as if they
    were texts.
    """
    return array.dtype.kind == "U" or (array.dtype.kind == "O" and not untext(array))


def untext(array: np.ndarray[Any, Any]) -> str:
    """Return the type of the first thing in an array of objects that is no text; else nothing."""
    return next((type(one).__name__ for one in array.flat if not isinstance(one, str)), "")
