"""A folder of Parquet parts: each stands for a fixed range of rows, and is there whole or not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from passes.errors import RewriteError
from rewriter.apply.columns import type_of_column, write_column
from rewriter.predictor import Prediction

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "Job", "OutputFolder"]

Column = tuple[str, np.dtype[Any] | None, int]
"""The name, element type and rank of an output; no type where no sample has one."""

_JOB = "_job.json"


@dataclasses.dataclass(frozen=True)
class Job:
    """What a folder of parts is made from; the same job may be resumed.

    Attributes:
        model: The SHA-256 of the model's file.
        source: Where the samples are.
        rows: How many there are.
        id_column: The column with their ids; None for their numbers.
        part_size: Rows of each part but the last.
    """

    model: str
    source: str
    rows: int
    id_column: str | None
    part_size: int

    @classmethod
    def of(cls, model: Path, source: Path, rows: int, id_column: str | None, size: int) -> Job:
        """Return the job of some files."""
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        return cls(digest, str(source.resolve()), rows, id_column, size)

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """The number of each part and its range of rows."""
        starts = range(0, self.rows, self.part_size)
        return [(k, a, min(a + self.part_size, self.rows)) for k, a in enumerate(starts)]


class OutputFolder:
    """The parts that are there, and where the next ones are written."""

    def __init__(self, folder: Path, outputs: Sequence[Column]) -> None:
        """Describe a folder.

        Args:
            folder: Where the parts are.
            outputs: The columns of the results.
        """
        self.folder = folder
        self._outputs = outputs

    def begin(self, job: Job, *, resume: bool) -> Job:
        """Make the folder, or take up the job that it holds.

        Args:
            job: What is to be done.
            resume: Whether the folder may hold parts of it.

        Returns:
            The job, with the size of the parts that are there.

        Raises:
            RewriteError: The folder holds something, and no job is to be resumed, or another one.
        """
        record = self.folder / _JOB
        if not resume:
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise RewriteError(
                    f"{self.folder} is not empty; give --resume to go on, or another folder"
                )
        elif record.exists():
            try:
                begun = Job(**json.loads(record.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise RewriteError(f"{record} is damaged; give another folder") from error
            if dataclasses.replace(job, part_size=begun.part_size) != begun:
                raise RewriteError(
                    f"{self.folder} holds another job (its model, samples or ids differ); give "
                    "another folder"
                )
            for left in self.folder.glob("*.partial"):
                left.unlink()
            return begun
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(record, json.dumps(dataclasses.asdict(job)).encode())
        return job

    def path(self, part: int) -> Path:
        """Return the file of a part."""
        return self.folder / f"part-{part:05d}.parquet"

    def missing(self, job: Job) -> list[tuple[int, int, int]]:
        """Return the parts that are not there."""
        return [part for part in job.parts if not self.path(part[0]).exists()]

    def write(
        self, part: int, id_name: str, ids: Sequence[Any], results: Sequence[Prediction]
    ) -> int:
        """Write one part under a temporary name and rename it.

        Args:
            part: Its number.
            id_name: The name of the column of ids.
            ids: The ids of its rows.
            results: What became of them.

        Returns:
            How many have an error.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        results = [self._fitting(one) for one in results]
        columns: dict[str, pa.Array] = {id_name: pa.array(ids)}
        for name, dtype, rank in self._outputs:
            rows = [None if one.outputs is None else one.outputs[name] for one in results]
            kind = None if dtype is None else type_of_column(dtype, rank)
            columns[name] = pa.nulls(len(rows)) if kind is None else write_column(rows, kind)
        columns["error"] = pa.array([one.error for one in results], type=pa.string())
        partial = self.path(part).with_suffix(f".{os.getpid()}.partial")
        pq.write_table(pa.table(columns), partial)
        partial.replace(self.path(part))
        return sum(one.error is not None for one in results)

    def _fitting(self, result: Prediction) -> Prediction:
        """Return a result whose outputs fit the columns, or what is wrong with it."""
        for name, dtype, rank in self._outputs if result.outputs is not None else ():
            value = np.asarray((result.outputs or {})[name])
            if dtype is None or value.ndim != rank:
                return Prediction(
                    error=f"output {name!r} has rank {value.ndim} here and {rank} in the samples "
                    "before: a column holds tensors of one rank"
                )
        return result

    def errors(self, job: Job) -> int:
        """Return how many samples of the parts that are there have an error."""
        import pyarrow.parquet as pq

        there = [self.path(part) for part, *_ in job.parts if self.path(part).exists()]
        tables = (pq.read_table(path, columns=["error"])["error"] for path in there)
        return sum(len(column) - column.null_count for column in tables)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)
