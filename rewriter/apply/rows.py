"""Reads samples from Parquet files, npz files and folders of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from passes.errors import RewriteError
from rewriter.apply.columns import Dims, Value, read_column
from rewriter.apply.ids import decoded, one_kind, unfit
from rewriter.apply.image_rows import IMAGES, ImageRows
from rewriter.apply.npz_rows import NpzRows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetRows", "Rows", "check_columns", "files_of", "open_rows", "samples_of"]


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
    if source.suffix.lower() == ".npz":
        return _refusing_ids(NpzRows(source, list(inputs)), source, id_column)
    shown = files_of(source)
    if tables := [f for f in shown if f.suffix.lower() in (".parquet", ".pq")]:
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
                check_columns(names, wanted, f"{file}")
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


def check_columns(names: Sequence[str], wanted: Sequence[str], source: str) -> None:
    """Refuse a table that lacks a column, or has two of one name.

    Args:
        names: The names of its columns.
        wanted: Those that are read, beside the shapes of theirs that are there.
        source: What it is called.

    Raises:
        RewriteError: A column is missing, or stands there twice.
    """
    if missing := [name for name in wanted if name not in names]:
        raise RewriteError(
            f"{source} has no column {missing[0]!r}; its columns are {', '.join(names)}; what is "
            "the same for every sample is given as shared"
        )
    read = (*wanted, *(f"{name}.shape" for name in wanted))
    if doubled := [name for name in read if names.count(name) > 1]:
        raise RewriteError(
            f"{source} has {names.count(doubled[0])} columns {doubled[0]!r}; leave one of them"
        )


def samples_of(table: pa.Table, inputs: Mapping[str, Dims]) -> list[dict[str, Value]]:
    """Return the sample in each row of a table.

    Args:
        table: A column for each input, named as it is; beside it a column ``NAME.shape`` may give
            the shapes of flat lists.
        inputs: The inputs, and what is known of the dimensions of their values.
    """
    columns = [_read(table, name, dims) for name, dims in inputs.items()]
    return [dict(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]


def _read(table: pa.Table, name: str, dims: Dims) -> list[Value]:
    shape = f"{name}.shape"
    shapes = _combined(table[shape]) if shape in table.column_names else None
    try:
        return read_column(_combined(table[name]), shapes, dims)
    except RewriteError as error:
        raise RewriteError(f"column {name!r}: {error}") from error


def _combined(column: Any) -> Any:
    """Return a column as one array that begins at its own first row."""
    import pyarrow as pa

    whole = column.combine_chunks()
    return pa.concat_arrays([whole, whole.slice(0, 0)]) if whole.offset else whole
