"""A model over batches of Arrow tables: a function for Spark's ``mapInArrow`` and its kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from passes.errors import RewriteError
from rewriter.apply.columns import type_of_column
from rewriter.apply.results import ERROR, Column, check_names, declared_columns, result_columns
from rewriter.apply.rows import check_columns, samples_of
from rewriter.model_files import models
from rewriter.running.predictor import Predictor

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowMapper"]


class ArrowMapper:
    """Takes batches of rows and yields a row of results for each: a column of an output each.

    It can be sent to other processes; each call opens the model anew, with one thread. A sample
    that fails has nulls, and the reason in the column ``error``.

    Attributes:
        schema: The columns of the outputs and ``error``; those that are kept stand in front.
    """

    def __init__(
        self,
        model: Any,
        *,
        keep: Sequence[str] = (),
        backend: str = "onnxruntime",
        device: str = "cpu",
        batch_size: int = 256,
        shared: Mapping[str, Any] | None = None,
        signed: bool = False,
    ) -> None:
        """Read the types of the outputs.

        Args:
            model: A path that all processes can read, or a ModelProto.
            keep: Columns of the batches that the results hold, too: the ids.
            backend: The name of a backend.
            device: One of its devices.
            batch_size: Samples in a run, at most.
            shared: The inputs that are the same for every sample, by name.
            signed: Whether outputs of unsigned numbers and of half-precision floats, which Spark
                does not have, are columns of the next wider type.

        Raises:
            RewriteError: The rank of an output is not declared, or another column has its name;
                or no signed type holds its numbers.
        """
        import pyarrow as pa

        self._model = model
        self._keep = tuple(keep)
        self._options: dict[str, Any] = {
            "backend": backend,
            "device": device,
            "batch_size": batch_size,
            "shared": shared,
        }
        outputs = declared_columns(models.take(model).model)
        self._outputs = tuple(map(_signed, outputs)) if signed else outputs
        fields = [
            (name, type_of_column(dtype, rank))
            for name, dtype, rank in self._outputs
            if dtype is not None
        ]
        check_names("", [name for name, *_ in self._outputs])
        self.schema = pa.schema([*fields, (ERROR, pa.string())])
        if taken := [name for name in self._keep if name in self.schema.names]:
            raise RewriteError(f"the results have a column {taken[0]!r}; rename the one to keep")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the rows of each batch.

        Args:
            batches: Rows with a column for each input that holds samples, named as the input; for
                flat lists a column ``NAME.shape`` may give their shapes.

        Yields:
            For each batch its kept columns, the outputs and ``error``.

        Raises:
            RewriteError: The model cannot be opened, or a column is missing.
        """
        import pyarrow as pa

        predictor = Predictor(self._model, must_begin=False, **self._options)
        for batch in batches:
            table = pa.Table.from_batches([batch])
            wanted = [*predictor.inputs, *self._keep]
            check_columns(table.column_names, wanted, "the table")
            results = list(predictor(samples_of(table, predictor.dims)))
            columns = {name: batch.column(name) for name in self._keep}
            columns |= result_columns(self._outputs, results)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


_WIDER = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "float16": "float32"}


def _signed(column: Column) -> Column:
    """Return a column of an output in a type that Spark has."""
    name, dtype, rank = column
    if dtype == np.uint64:
        raise RewriteError(
            f"output {name!r} is of type uint64, which Spark does not have, nor a wider one: add "
            "a Cast where the model is made"
        )
    wider = None if dtype is None else _WIDER.get(dtype.name)
    return column if wider is None else (name, np.dtype(wider), rank)
