"""The results of a batch, one for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from passes.errors import RewriteError

__all__ = ["NotPerSampleError", "split_result"]

Array = np.ndarray[Any, Any]


class NotPerSampleError(RewriteError):
    """An output does not hold one value for each sample."""


def split_result(name: str, value: Any, count: int) -> Sequence[Array]:
    """Return what each sample has of an output.

    Args:
        name: The output.
        value: A list of elements, or an array of rows.
        count: The number of the samples.

    Raises:
        NotPerSampleError: There are not as many elements or rows.
    """
    if isinstance(value, list) and len(value) == count:
        return value
    if isinstance(value, np.ndarray) and value.ndim and len(value) == count:
        return [np.asarray(row) for row in value]
    has = f"{len(value)} elements" if isinstance(value, list) else f"shape {np.shape(value)}"
    raise NotPerSampleError(
        f"output {name!r} has {has} for {count} samples, and must hold one element or row for "
        "each; give a model whose outputs do, or rewrite it with tensor_io, which keeps the "
        "lengths of packed outputs"
    )
