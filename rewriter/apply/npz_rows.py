"""Reads samples from an npz file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passes.errors import RewriteError
from rewriter.feeding.npz_files import open_npz, reading

__all__ = ["NpzRows"]

Array = np.ndarray[Any, Any]


class NpzRows:
    """Samples of an npz file: ``in__NAME__0``, ``in__NAME__1``, ... or rows of ``in__NAME``.

    Where no name has the prefix ``in__``, it is left out of all of them.
    """

    def __init__(self, file: Path, inputs: Sequence[str]) -> None:
        self._file = file
        self._data = open_npz(file, "samples")
        self._inputs = inputs
        self._prefix = "in__" if any(one.startswith("in__") for one in self._data.files) else ""
        with reading(file, "samples"):
            counts = {name: self._count(name) for name in inputs}
            self._rows = {
                name: self._data[self._prefix + name] for name in inputs if self._is_whole(name)
            }
        if len(set(counts.values())) > 1:
            raise RewriteError(f"{file} has different numbers of samples: {counts}")
        self._length = min(counts.values(), default=0)

    def _is_whole(self, name: str) -> bool:
        return self._prefix + name in self._data.files

    def _count(self, name: str) -> int:
        key = self._prefix + name
        if f"{key}__len" in self._data.files:
            return int(self._data[f"{key}__len"])
        if self._is_whole(name) and self._data[key].ndim:
            return len(self._data[key])
        numbered = re.compile(re.escape(key) + r"__(\d+)")
        found = {int(one[1]) for one in map(numbered.fullmatch, self._data.files) if one}
        if not found:
            raise RewriteError(f"{self._file} has no samples of {name!r}: add {key}__0, or {key}")
        if (gap := next(at for at in range(len(found) + 1) if at not in found)) < len(found):
            raise RewriteError(
                f"{self._file} has {key}__{max(found)}, and no {key}__{gap}: number the "
                f"samples from 0 on, or say with {key}__len how many there are"
            )
        return len(found)

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return a range of rows; see `Rows`."""
        numbers = range(start, min(stop, self._length))
        with reading(self._file, "samples"):
            samples = [
                {name: self._value(name, number) for name in self._inputs} for number in numbers
            ]
        return list(numbers), samples

    def _value(self, name: str, number: int) -> Array | None:
        if name in self._rows:
            return np.asarray(self._rows[name][number])
        key = f"{self._prefix}{name}__{number}"
        return self._data[key] if key in self._data.files else None
