"""What a user can still do, apart from what they did already."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

__all__ = ["naming", "still_open"]

_BETWEEN = re.compile(r"[,;] or ")
_UNIFORM = re.compile(r"--uniform\b")


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


def naming(text: str, names: Sequence[str]) -> str:
    """Name the inputs where a remedy or a note says ``--uniform``.

    Args:
        text: A remedy, its ways parted as for `still_open`, or a note.
        names: The sequence inputs that a promise can be made of.

    Returns:
        The text; without the ways that say it where there is no such input.
    """
    if not names:
        return still_open(text.removesuffix(_SPARES), ("--uniform",))
    return _UNIFORM.sub("--uniform " + " --uniform ".join(names), text)


_SPARES = ", --uniform spares it"
