"""Are the ids of samples fit to find the results by?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["unfit"]


def unfit(columns: Sequence[pa.ChunkedArray], name: str) -> str:
    """Return what is wrong with a column of ids; empty where each is there and stands once.

    Args:
        columns: The column in each file.
        name: What it is called.
    """
    import pyarrow as pa
    from pyarrow import compute

    absent = sum(column.null_count for column in columns)
    present = sum(len(column) for column in columns) - absent
    try:
        values = pa.chunked_array([chunk for column in columns for chunk in column.chunks])
        doubled = present - compute.count_distinct(values, mode="only_valid").as_py()
    except (pa.ArrowException, TypeError):  # files of different types, or lists as ids
        doubled = 0
    parts = []
    if absent:
        parts.append(f"{absent} of {absent + present} samples have none")
    if doubled:
        parts.append(f"{doubled} have one that stands before")
    if not parts:
        return ""
    return (
        f"column {name!r} does not tell the samples apart: {' and '.join(parts)}; the results "
        "stand in the order of the samples"
    )
