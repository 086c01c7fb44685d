"""Rows so wide that an iteration of a Loop is faster than its part of what takes its place.

An iteration takes a microsecond and more, whatever its rows; what takes its place reads and writes
them several times. Up to these bytes of a row it is at least as fast from 16 iterations on.
"""

from __future__ import annotations

import math

from passes.carried.joined import Joined
from passes.decisions import Code
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError

__all__ = [
    "CHOSEN",
    "EXTREMES",
    "FACTORS",
    "INTEGER_EXTREMES",
    "IN_STEPS",
    "ONE_FACTOR",
    "WRITTEN",
    "check_width",
]

IN_STEPS = 1024
"""Totals of twice as many rows in each step."""

INTEGER_EXTREMES = 256
"""The same for extremes of 64-bit integers; Max and Min, which onnxruntime gets wrong, are choices
by Less there."""

WRITTEN = 1024
"""Products that ScatterElements writes."""

FACTORS, ONE_FACTOR = 256, 512
"""Linear recurrences with factors for each row, or with one number for all of them."""

EXTREMES = 2048
"""The extreme of all rows, or for each element the row that has it."""

CHOSEN = 512
"""For each element of each row the last one that was chosen."""


def check_width(joined: Joined, carried: Carried, widest: int) -> None:
    """Check that rows are not too wide, where what is slower than the Loop is refused.

    Args:
        joined: Says whether it is.
        carried: The carried value; rows of unknown size are taken to be narrow.
        widest: So many bytes may a row have.

    Raises:
        NotAMapError: They are too wide.
    """
    dims = joined.typing.static_dims(carried.initial)
    dtype = joined.typing.dtype(carried.initial)
    if not joined.weighs_cost or dims is None or dtype is None:
        return
    if math.prod(dims) * dtype.itemsize > widest:
        detail = (
            f"'{carried.inner.name}' is faster in the Loop for rows of more than {widest} bytes"
        )
        raise NotAMapError(Code.COST, detail, carried.next.producer())
