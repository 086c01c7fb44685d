"""Columns of tables as arrays of samples, and back.

A tensor of rank r is a list of lists, r deep. A dimension behind one of 0 elements is lost in it;
it is taken from the type of the input where that has a number, and is 0 where not.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from passes.errors import RewriteError
from rewriter.apply.image_rows import read_image, require_pillow
from rewriter.running.predictor import Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dims", "Value", "read_column", "type_of_column", "write_column"]

Array = np.ndarray[Any, Any]
Value = Array | Unreadable | None
Dims = tuple[int | str | None, ...] | None


def read_column(column: Any, shapes: Any = None, dims: Dims = None) -> list[Value]:
    """Return the tensor in each row of a column.

    Args:
        column: A `pyarrow.Array` of numbers, strings, lists of lists, tensors of one shape,
            structs of ``data`` and ``shape`` (tensors of many shapes), or images as bytes, which
            may stand in structs with a ``path``, however it is encoded.
        shapes: A column with the shape of each row, where the rows are flat lists.
        dims: The dimensions of the rows, as far as they are known.

    Returns:
        An array for each row; None for a row without a value, or whose lists are not rectangular
        or hold a null. An image that cannot be read is `Unreadable`.

    Raises:
        RewriteError: The column is of another type.
    """
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(column, pa.ExtensionArray):
        if hasattr(column, "to_numpy_ndarray"):
            return _of_one_shape(column)
        column = column.storage
    column = _decoded(column)
    fields = {f.name for f in column.type} if pa.types.is_struct(column.type) else set()
    if {"data", "shape"} <= fields:
        data, lengths = (compute.struct_field(column, name) for name in ("data", "shape"))
        return read_column(data, lengths, dims)
    if fields == {"bytes", "path"}:
        return read_column(compute.struct_field(column, "bytes"))
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _images(column)
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    levels: list[Array] = []
    gaps: list[Array] = []
    sizes: list[int] = []
    while _is_list(column.type):
        known = 0 if dims is None or len(dims) <= len(sizes) else dims[len(sizes)]
        sizes.append(known if isinstance(known, int) else 0)
        if pa.types.is_fixed_size_list(column.type):
            sizes[-1] = column.type.list_size
            column = column.cast(pa.list_(column.type.value_type))
        levels.append(column.offsets.to_numpy().astype(np.int64))
        column = _decoded(column.values)
        gaps.append(column.is_null().to_numpy(zero_copy_only=False).nonzero()[0])
    values = _values(column)
    rows: list[Value] = [
        _tensor(levels, sizes, gaps, values, row) if ok else None
        for row, ok in enumerate(is_there)
    ]
    if shapes is None:
        return rows
    return [_shaped(*pair) for pair in zip(rows, read_column(shapes), strict=True)]


def _of_one_shape(column: Any) -> list[Value]:
    """Return tensors that the type of their column gives one shape."""
    present = iter(column.drop_null().to_numpy_ndarray())
    return [next(present) if ok else None for ok in column.is_valid().to_pylist()]


def _images(column: Any) -> list[Value]:
    require_pillow()
    return [
        None if one is None else read_image(io.BytesIO(one), "the value")
        for one in column.to_pylist()
    ]


def _decoded(column: Any) -> Any:
    """Return a column with its values one behind the other, as most columns have them."""
    import pyarrow as pa
    from pyarrow import compute

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _decoded(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _decoded(compute.run_end_decode(column))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        lengths = column.value_lengths().fill_null(0).to_numpy()
        return pa.LargeListArray.from_arrays(
            np.concatenate([[0], lengths.cumsum()]), column.flatten(), mask=column.is_null()
        )
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    return column.cast(pa.float64()) if pa.types.is_null(kind) else column


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _values(column: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=object)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if not any(test(column.type) for test in tests):
        raise RewriteError(
            f"{column.type} holds no tensors; give numbers, booleans, strings, or lists of them"
        )
    if not pa.types.is_floating(column.type):
        # A null makes numpy read integers as floats.
        column = column.fill_null(pa.scalar(0).cast(column.type))
    return column.to_numpy(zero_copy_only=False)


def _tensor(
    levels: Sequence[Array], known: Sequence[int], gaps: Sequence[Array], values: Array, row: int
) -> Array | None:
    """Return the tensor of a row, whose lists begin at ``levels`` and have nulls at ``gaps``."""
    start, stop, shape = row, row + 1, []
    for offsets, size, nulls in zip(levels, known, gaps, strict=True):
        sizes = np.diff(offsets[start : stop + 1])
        if len(sizes) and (sizes != sizes[0]).any():
            return None
        shape.append(int(sizes[0]) if len(sizes) else size)
        start, stop = int(offsets[start]), int(offsets[stop])
        if np.searchsorted(nulls, start) != np.searchsorted(nulls, stop):
            return None
    return values[start:stop].reshape(shape)


def _shaped(row: Value, shape: Value) -> Value:
    if not isinstance(row, np.ndarray) or not isinstance(shape, np.ndarray) or (shape < 0).any():
        return None
    if row.size != np.prod(shape, dtype=np.int64):
        return None
    return row.reshape(tuple(map(int, shape)))


def type_of_column(dtype: np.dtype[Any], rank: int) -> pa.DataType:
    """Return the type of a column of tensors.

    Raises:
        RewriteError: Tables have no such element type.
    """
    import pyarrow as pa

    try:
        kind = pa.string() if dtype.kind in "OUST" else pa.from_numpy_dtype(_known(dtype))
    except (pa.ArrowException, NotImplementedError) as error:
        raise RewriteError(f"a table has no column of {dtype}; add a Cast to the model") from error
    for _ in range(rank):
        kind = pa.list_(kind)
    return kind


def _known(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type of numpy's own that holds the same values."""
    return np.dtype(np.float32) if dtype.isbuiltin == 2 else dtype


def write_column(rows: Sequence[Array | None], kind: pa.DataType) -> pa.Array:
    """Return a column with a tensor in each row, null where there is none.

    Args:
        rows: The tensors, all of one rank and element type.
        kind: The type of the column, of `type_of_column`.
    """
    import pyarrow as pa

    absent = np.array([row is None for row in rows], dtype=bool)
    depth = 0
    while _is_list(kind):
        kind, depth = kind.value_type, depth + 1
    there = [np.asarray(row) for row in rows if row is not None]
    flat = [row.ravel() for row in there] or [np.empty(0)]
    values = np.concatenate(flat)
    if not depth:
        # An array of every row: what stands at an absent one is never read.
        spread = np.zeros(len(rows), values.dtype)
        spread[~absent] = values
        return pa.array(_plain(spread, kind), type=kind, mask=absent)
    column = pa.array(_plain(values, kind), type=kind)
    for axis in reversed(range(1, depth)):
        sizes = [
            np.full(np.prod(row.shape[:axis], dtype=np.int64), row.shape[axis]) for row in there
        ]
        column = pa.ListArray.from_arrays(_offsets(np.concatenate([[], *sizes])), column)
    lengths = np.zeros(len(rows), np.int64)
    lengths[~absent] = [len(row) for row in there]
    return pa.ListArray.from_arrays(_offsets(lengths), column, mask=pa.array(absent))


def _plain(values: Array, kind: Any) -> Array:
    import pyarrow as pa

    return values if pa.types.is_string(kind) else values.astype(kind.to_pandas_dtype())


def _offsets(lengths: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), type=pa.int32())
