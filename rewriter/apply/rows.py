"""Reads samples from Parquet files, npz files and folders of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from passes.errors import RewriteError
from rewriter.apply.columns import Dims, read_column
from rewriter.apply.ids import decoded, one_kind, unfit
from rewriter.apply.image_rows import IMAGES, ImageRows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetRows", "Rows", "files_of", "open_rows", "samples_of"]

Array = np.ndarray[Any, Any]


class Rows(Protocol):
    """Samples by number."""

    def __len__(self) -> int:
        """Return how many there are."""

    def read(self, start: int, stop: int) -> tuple[Any, list[dict[str, Any]]]:
        """Return the ids, a list or a column, and the samples of a range of rows.

        A value that cannot be read is None in its sample, or `Unreadable`.
        """


def files_of(source: Path) -> list[Path]:
    """Return the files of a folder in order, but for hidden ones; a file is the only one."""
    files = sorted(source.rglob("*")) if source.is_dir() else [source]
    return [f for f in files if f.is_file() and not f.name.startswith((".", "_"))]


def open_rows(source: Path, inputs: Mapping[str, Dims], id_column: str | None) -> Rows:
    """Open what holds the samples.

    Args:
        source: A Parquet file, a folder of Parquet files or of images, or an npz file.
        inputs: The inputs that hold a value for each sample, and what is known of its dimensions.
        id_column: The column whose value names a sample, for images what to call the column of
            their names; None numbers the samples.

    Raises:
        RewriteError: It does not exist, is of no such kind, or lacks a column.
    """
    if not source.exists():
        raise RewriteError(f"{source} does not exist; give a file or folder with samples")
    if source.suffix == ".npz":
        return _refusing_ids(NpzRows(source, list(inputs)), source, id_column)
    shown = files_of(source)
    if tables := [f for f in shown if f.suffix in (".parquet", ".pq")]:
        return ParquetRows(tables, inputs, id_column)
    if images := [f for f in shown if f.suffix.lower() in IMAGES]:
        return ImageRows(source, images, list(inputs), is_named=id_column is not None)
    raise RewriteError(
        f"{source} holds no samples: give a Parquet file, a folder of Parquet files or of images, "
        "or an npz file"
    )


def _refusing_ids(rows: Rows, source: Path, id_column: str | None) -> Rows:
    if id_column is not None:
        raise RewriteError(f"{source} has no columns, so no id {id_column!r}; leave out --id")
    return rows


class ParquetRows:
    """The rows of Parquet files, in the order of their names; a row group at a time is in memory.

    A column is named as its input; beside it a column ``NAME.shape`` may give the shape of flat
    lists.
    """

    def __init__(
        self, files: Sequence[Path], inputs: Mapping[str, Dims], id_column: str | None
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._inputs = inputs
        self._id = id_column
        self._groups: list[tuple[Path, int, int]] = []
        self._opened: tuple[int, Any] | None = None
        kinds = dict[Path, Any]()
        for file in files:
            try:
                data = pq.ParquetFile(file)
            except (pa.ArrowException, OSError) as error:
                raise RewriteError(f"{file} is not a readable Parquet file: {error}") from error
            with data:
                names = data.schema_arrow.names
                wanted = [*inputs, *([id_column] if id_column else [])]
                if missing := [name for name in wanted if name not in names]:
                    raise RewriteError(
                        f"{file} has no column {missing[0]!r}; its columns are {', '.join(names)}"
                    )
                if id_column:
                    kinds[file] = decoded(data.schema_arrow.empty_table()[id_column]).type
                for group in range(data.num_row_groups):
                    self._groups.append((file, group, data.metadata.row_group(group).num_rows))
        self._id_kind = one_kind(kinds, id_column) if id_column else None
        self._ends = np.cumsum([0, *(count for *_, count in self._groups)])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, start: int, stop: int) -> tuple[Any, list[dict[str, Any]]]:
        """Return a range of rows; see `Rows`."""
        import pyarrow as pa

        ids: list[Any] = []
        samples: list[dict[str, Any]] = []
        first = int(np.searchsorted(self._ends, start, side="right")) - 1
        for group in range(first, len(self._groups)):
            begin, end = int(self._ends[group]), int(self._ends[group + 1])
            if begin >= stop:
                break
            low, high = max(start, begin), min(stop, end)
            table = self._table(group).slice(low - begin, high - low)
            ids += (
                decoded(table[self._id]).cast(self._id_kind).chunks
                if self._id
                else range(low, high)
            )
            samples += samples_of(table, self._inputs)
        return pa.chunked_array(ids, self._id_kind) if self._id else ids, samples

    def unfit_ids(self) -> str:
        """Return what is wrong with the ids; empty where they tell the samples apart."""
        import pyarrow.parquet as pq

        if self._id is None:
            return ""
        files = dict.fromkeys(file for file, *_ in self._groups)
        columns = [pq.read_table(f, columns=[self._id], partitioning=None) for f in files]
        return unfit([table[self._id] for table in columns], self._id)

    def _table(self, group: int) -> Any:
        import pyarrow.parquet as pq

        if self._opened is None or self._opened[0] != group:
            file, number, _ = self._groups[group]
            with pq.ParquetFile(file) as data:
                names = data.schema_arrow.names
                wanted = [*self._inputs, *(f"{name}.shape" for name in self._inputs), self._id]
                columns = [name for name in wanted if name in names]
                self._opened = (group, data.read_row_group(number, columns=columns))
        return self._opened[1]


def samples_of(table: pa.Table, inputs: Mapping[str, Dims]) -> list[dict[str, Array | None]]:
    """Return the sample in each row of a table.

    Args:
        table: A column for each input, named as it is; beside it a column ``NAME.shape`` may give
            the shapes of flat lists.
        inputs: The inputs, and what is known of the dimensions of their values.
    """
    columns = [_read(table, name, dims) for name, dims in inputs.items()]
    return [dict(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]


def _read(table: pa.Table, name: str, dims: Dims) -> list[Array | None]:
    shape = f"{name}.shape"
    shapes = _combined(table[shape]) if shape in table.column_names else None
    return read_column(_combined(table[name]), shapes, dims)


def _combined(column: Any) -> Any:
    """Return a column as one array that begins at its own first row."""
    import pyarrow as pa

    whole = column.combine_chunks()
    return pa.concat_arrays([whole, whole.slice(0, 0)]) if whole.offset else whole


class NpzRows:
    """Samples of an npz file: ``in__NAME__0``, ``in__NAME__1``, ... or rows of ``in__NAME``.

    Where no name has the prefix ``in__``, it is left out of all of them.
    """

    def __init__(self, file: Path, inputs: Sequence[str]) -> None:
        try:
            self._data = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise RewriteError(f"{file} is not a readable npz file: {error}") from error
        if not hasattr(self._data, "files"):
            raise RewriteError(f"{file} holds one array; samples are an npz file")
        self._inputs = inputs
        self._prefix = "in__" if any(one.startswith("in__") for one in self._data.files) else ""
        counts = {name: self._count(name, file) for name in inputs}
        if len(set(counts.values())) > 1:
            raise RewriteError(f"{file} has different numbers of samples: {counts}")
        self._rows = {
            name: self._data[self._prefix + name] for name in inputs if self._is_whole(name)
        }
        self._length = min(counts.values(), default=0)

    def _is_whole(self, name: str) -> bool:
        return self._prefix + name in self._data.files

    def _count(self, name: str, file: Path) -> int:
        key = self._prefix + name
        if f"{key}__len" in self._data.files:
            return int(self._data[f"{key}__len"])
        if self._is_whole(name) and self._data[key].ndim:
            return len(self._data[key])
        count = 0
        while f"{key}__{count}" in self._data.files:
            count += 1
        if not count:
            raise RewriteError(f"{file} has no samples of {name!r}: add {key}__0, or {key}")
        return count

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return a range of rows; see `Rows`."""
        numbers = range(start, min(stop, self._length))
        return list(numbers), [
            {name: self._value(name, number) for name in self._inputs} for number in numbers
        ]

    def _value(self, name: str, number: int) -> Array | None:
        if name in self._rows:
            return np.asarray(self._rows[name][number])
        key = f"{self._prefix}{name}__{number}"
        return self._data[key] if key in self._data.files else None
