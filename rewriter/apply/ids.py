"""Are the ids of samples fit to find the results by?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from passes.errors import RewriteError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["decoded", "one_kind", "unfit"]


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of ids without its dictionary, which differs from part to part."""
    import pyarrow as pa

    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def one_kind(kinds: Mapping[Path, pa.DataType], name: str) -> pa.DataType:
    """Return the type of the ids of all files.

    Args:
        kinds: The type in each file.
        name: What the column is called.

    Raises:
        RewriteError: They have several types.
    """
    import pyarrow as pa

    first = dict[pa.DataType, Path]()
    for file, kind in kinds.items():
        if not pa.types.is_null(kind):
            first.setdefault(kind, file)
    if len(first) > 1:
        (kind, file), (other, another) = list(first.items())[:2]
        raise RewriteError(
            f"column {name!r} is {kind} in {file} and {other} in {another}; ids have one type"
        )
    return next(iter(first), pa.null())


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
