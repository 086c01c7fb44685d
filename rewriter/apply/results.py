"""Results of samples as columns of a table: one for each output, and one for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter.apply.columns import type_of_column, write_column
from rewriter.running.predictor import Prediction

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ERROR",
    "Column",
    "check_names",
    "columns_of",
    "declared_columns",
    "result_columns",
]

Column = tuple[str, np.dtype[Any] | None, int]
"""The name, element type and rank of an output; no type where no sample has one."""
ERROR = "error"
"""The column of errors."""


def check_names(ids: str, outputs: Sequence[str]) -> None:
    """Refuse columns of one name: the ids, the outputs and the errors stand side by side.

    Args:
        ids: The name of the column of ids.
        outputs: The names of the outputs.

    Raises:
        RewriteError: Two have one name.
    """
    if ERROR in outputs:
        raise RewriteError(
            f"output {ERROR!r} has the name of the column of errors: rename it where the model "
            "is made"
        )
    if ids in (ERROR, *outputs):
        other = "errors" if ids == ERROR else "an output"
        raise RewriteError(
            f"the column of ids would be called {ids!r}, like that of {other}: give --id with "
            "another column"
        )


def columns_of(results: Sequence[Prediction], model: ir.Model) -> tuple[Column, ...]:
    """Return the name, element type and rank of each output.

    The first sample shows them; without one they are as the model declares them, where it does.
    """
    first = next((one.outputs for one in results if one.outputs is not None), None)
    if first is None:
        try:
            return declared_columns(model)
        except RewriteError:
            names = [str(value.name) for value in model.graph.outputs]
            return tuple((name, None, 0) for name in names if name not in _lengths(model))
    arrays = {name: np.asarray(value) for name, value in first.items()}
    return tuple((name, array.dtype, array.ndim) for name, array in arrays.items())


def declared_columns(model: ir.Model) -> tuple[Column, ...]:
    """Return the name, element type and rank of each output of one sample, as the types say.

    Raises:
        RewriteError: The rank of an output is not declared.
    """
    passed, lengths = TensorIo.read(model).outputs, _lengths(model)
    return tuple(
        _declared(value, passed[value.name].dims if value.name in passed else None)
        for value in model.graph.outputs
        if value.name not in lengths
    )


def _lengths(model: ir.Model) -> set[str]:
    return {one.lengths for one in TensorIo.read(model).outputs.values()}


def _declared(value: ir.Value, dims: tuple[Any, ...] | None) -> Column:
    is_sequence = isinstance(value.type, ir.SequenceType)
    if dims is not None:
        rank = len(dims)
    elif value.shape is not None and (is_sequence or value.shape.rank()):
        rank = value.shape.rank() - (not is_sequence)
    else:
        raise RewriteError(
            f"output {value.name!r} has no declared rank, so its column has no type; declare it, "
            "or rewrite the model with seqmap, which infers it"
        )
    dtype = value.dtype
    assert dtype is not None
    return (
        str(value.name),
        np.dtype(object) if dtype == ir.DataType.STRING else dtype.numpy(),
        rank,
    )


def result_columns(
    outputs: Sequence[Column], results: Sequence[Prediction]
) -> dict[str, pa.Array]:
    """Return a column for each output, null where the sample failed, and one of errors.

    Args:
        outputs: The columns of the outputs.
        results: What became of the samples; one whose outputs do not fit the columns is an error.
    """
    import pyarrow as pa

    results = [_fitting(outputs, one) for one in results]
    columns = {}
    for name, dtype, rank in outputs:
        rows = [None if one.outputs is None else one.outputs[name] for one in results]
        kind = None if dtype is None else type_of_column(dtype, rank)
        columns[name] = pa.nulls(len(rows)) if kind is None else write_column(rows, kind)
    columns[ERROR] = pa.array([one.error for one in results], type=pa.string())
    return columns


def _fitting(outputs: Sequence[Column], result: Prediction) -> Prediction:
    """Return a result whose outputs fit the columns, or what is wrong with it."""
    for name, dtype, rank in outputs if result.outputs is not None else ():
        value = np.asarray((result.outputs or {})[name])
        if dtype is None or value.ndim != rank:
            return Prediction(
                error=f"output {name!r} has rank {value.ndim} here and {rank} in the samples "
                "before: a column holds tensors of one rank"
            )
    return result
