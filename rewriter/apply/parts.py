"""A folder of Parquet parts: each stands for a fixed range of rows, and is there whole or not."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from passes.errors import RewriteError
from rewriter.apply.results import ERROR, Column, result_columns
from rewriter.model_files.files import reason
from rewriter.running.predictor import Prediction

__all__ = ["Job", "OutputFolder", "state_of"]

_JOB = "_job.json"


@dataclasses.dataclass(frozen=True)
class Job:
    """The job that a folder of parts is made by; the same job may be resumed.

    Attributes:
        model: The SHA-256 of the model's file.
        source: Where the samples are.
        rows: How many there are.
        id_column: The column with their ids; None for their numbers.
        part_size: Rows of each part but the last.
        state: What `state_of` tells of the files.
    """

    model: str
    source: str
    rows: int
    id_column: str | None
    part_size: int
    state: str = ""

    @classmethod
    def of(
        cls, model: Path, source: Path, rows: int, id_column: str | None, size: int, state: str
    ) -> Job:
        """Return the job of some files."""
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        return cls(digest, str(source.resolve()), rows, id_column, size, state)

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """The number of each part and its range of rows; one that is empty where no row is."""
        starts = range(0, self.rows or 1, self.part_size)
        return [(k, a, min(a + self.part_size, self.rows)) for k, a in enumerate(starts)]


def state_of(files: Iterable[Path], shared: Path | None) -> str:
    """Return a digest that is another one when files of a job have changed.

    Args:
        files: The files with the samples and with weights; their sizes and times of change count.
        shared: The file of the inputs that all samples share, which is read.
    """
    digest = hashlib.sha256(b"" if shared is None else shared.read_bytes())
    for file in files:
        told = file.stat()
        digest.update(f"{file.resolve()} {told.st_size} {told.st_mtime_ns}\n".encode())
    return digest.hexdigest()


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
        if self.folder.exists() and not self.folder.is_dir():
            raise RewriteError(f"{self.folder} is a file; give a folder for the results")
        if not resume:
            if self.folder.exists() and any(self.folder.iterdir()):
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
                    f"{self.folder} holds another job (its model, samples, shared inputs or ids "
                    "differ); give another folder"
                )
            for left in self.folder.glob("*.partial"):
                left.unlink()
            return begun
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(record, json.dumps(dataclasses.asdict(job)).encode())
        except OSError as error:
            raise RewriteError(
                f"cannot write to {self.folder}: {reason(error)}; choose another place"
            ) from error
        return job

    def path(self, part: int) -> Path:
        """Return the file of a part."""
        return self.folder / f"part-{part:05d}.parquet"

    def missing(self, job: Job) -> list[tuple[int, int, int]]:
        """Return the parts that are not there."""
        return [part for part in job.parts if not self.path(part[0]).exists()]

    def write(self, part: int, id_name: str, ids: Any, results: Sequence[Prediction]) -> int:
        """Write one part under a temporary name and rename it.

        Args:
            part: Its number.
            id_name: The name of the column of ids.
            ids: The ids of its rows: a column, or a list of numbers or names.
            results: What became of them.

        Returns:
            How many have an error.

        Raises:
            RewriteError: It cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if isinstance(ids, list):
            ids = pa.array(ids) if ids else pa.array(ids, type=pa.int64())
        columns = {id_name: ids, **result_columns(self._outputs, results)}
        partial = self.path(part).with_suffix(f".{os.getpid()}.partial")
        try:
            pq.write_table(pa.table(columns), partial)
            partial.replace(self.path(part))
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise RewriteError(
                f"cannot write {self.path(part)}: {reason(error)}; make room, and go on with "
                "--resume"
            ) from error
        return len(ids) - int(columns[ERROR].null_count)

    def errors(self, job: Job) -> int:
        """Return how many samples of the parts that are there have an error.

        Raises:
            RewriteError: A part is damaged.
        """
        there = [self.path(part) for part, *_ in job.parts if self.path(part).exists()]
        return sum(map(_errors_in, there))


def _errors_in(part: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pq.read_table(part, columns=[ERROR], partitioning=None)[ERROR]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise RewriteError(
            f"{part} is damaged; remove it, and --resume makes it again: {error}"
        ) from error
    return len(column) - int(column.null_count)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)
