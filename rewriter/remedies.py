"""What a user can still do, apart from what they did already."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["still_open"]

_BETWEEN = re.compile(r"[,;] or ")


def still_open(remedy: str, given: Collection[str]) -> str:
    """Leave out of a remedy the ways that have been gone.

    Args:
        remedy: Ways, parted by ``, or`` or ``; or``.
        given: Options that can do nothing more, such as ``--tensor-io``.

    Returns:
        The ways that are left; the whole remedy where that is none of them.
    """
    ways = _BETWEEN.split(remedy)
    left = [way for way in ways if not any(option in way for option in given)]
    return remedy if len(left) in (0, len(ways)) else ", or ".join(left)
