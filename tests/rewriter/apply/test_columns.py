"""Columns of tables hold tensors, and give them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from passes.errors import RewriteError
from rewriter.apply.columns import read_column, type_of_column, write_column
from rewriter.apply.parts import Job, OutputFolder
from rewriter.apply.rows import open_rows
from rewriter.running.predictor import Prediction

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = {
    "numbers": [np.float32(1.5), np.float32(-2), None],
    "whole numbers": [np.int8(-3), np.int8(4)],
    "booleans": [np.array([True, False]), np.array([], bool), None, np.array([True])],
    "texts": [np.array(["a", "bc"], object), np.array(["d"], object)],
    "matrices": [np.ones((2, 3), np.float32), None, np.zeros((4, 3), np.float32)],
    "half": [np.arange(4, dtype=np.float16).reshape(2, 2)],
    "of rank 3": [np.arange(12.0).reshape(2, 3, 2), np.arange(4.0).reshape(1, 2, 2)],
    "none": [],
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_written_is_read(name: str) -> None:
    rows = ROWS[name]
    first = np.asarray(next((row for row in rows if row is not None), np.float32(0)))
    column = write_column(rows, type_of_column(first.dtype, first.ndim))
    assert column.null_count == sum(row is None for row in rows)
    found = read_column(column)
    assert len(found) == len(rows)
    for row, back in zip(rows, found, strict=True):
        assert (row is None) == (back is None)
        if row is not None:
            assert back is not None
            assert back.dtype == first.dtype
            np.testing.assert_array_equal(np.squeeze(back), np.squeeze(row))
            assert back.shape == np.shape(row)


def test_a_slice_of_a_column_is_read_from_its_own_start() -> None:
    rows = ROWS["matrices"]
    column = write_column(rows, type_of_column(np.dtype(np.float32), 2))
    pq_table = pa.table({"x": column}).slice(1)
    none, last = read_column(pa.concat_arrays([pq_table["x"].combine_chunks()]))
    assert none is None
    np.testing.assert_array_equal(last, rows[2])


def test_a_type_that_numpy_lacks_is_written_as_float() -> None:
    row = np.array([1, 2], ml_dtypes.bfloat16)
    (back,) = read_column(write_column([row], type_of_column(row.dtype, 1)))
    np.testing.assert_array_equal(back, np.array([1, 2], np.float32))


def test_a_type_that_tables_lack_is_refused() -> None:
    with pytest.raises(RewriteError, match="no column of complex64"):
        type_of_column(np.dtype(np.complex64), 1)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([[[1, 2], [3]]]), [None]),
        (pa.array([[1, None], [2**60 + 1]]), [None, np.array([2**60 + 1])]),
        (pa.array([[True, None], [True]]), [None, np.array([True])]),
        (pa.array([[1.5, None], [2.5]]), [None, np.array([2.5])]),
        (pa.array([["a", None], ["b"]]), [None, np.array(["b"], object)]),
        (pa.array([[None], [[1, 2]], [[3], None]]), [None, np.array([[1, 2]]), None]),
        (
            pa.array([{"data": [1, 2, 3, 4], "shape": [2, 2]}, {"data": [5], "shape": [1, 1]}]),
            [np.array([[1, 2], [3, 4]]), np.array([[5]])],
        ),
        (pa.array([{"data": [1, 2, 3], "shape": [2, 2]}]), [None]),
        (
            pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8.0).reshape(2, 2, 2)),
            [np.arange(4.0).reshape(2, 2), np.arange(4.0, 8.0).reshape(2, 2)],
        ),
    ],
    ids=[
        "not rectangular",
        "a null in integers",
        "a null in flags",
        "a null in floats",
        "a null in texts",
        "a null in lists of lists",
        "data and shape",
        "shape that does not fit",
        "tensors of one shape",
    ],
)
def test_other_columns(column: Any, expected: list[np.ndarray | None]) -> None:
    for row, back in zip(expected, read_column(column), strict=True):
        assert (row is None) == (back is None)
        if row is not None:
            np.testing.assert_array_equal(back, row)


TENSORS = pa.fixed_shape_tensor(pa.float32(), [2, 2])
STORED = pa.array([[1, 2, 3, 4], None], pa.list_(pa.float32(), 4))
OTHERWISE_ENCODED = {
    "a dictionary of texts": (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    "lists of a dictionary": (
        pa.ListArray.from_arrays(
            pa.array([0, 2, 3], pa.int32()), pa.array([5, 7, 5]).dictionary_encode()
        ),
        [[5, 7], [5]],
    ),
    "runs": (
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.0, 2.0])),
        [1.0, 1.0, 2.0],
    ),
    "views of lists": (
        pa.array([[[1.0]], None], pa.large_list_view(pa.list_view(pa.float32()))),
        [[[1.0]], None],
    ),
    "views of texts": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "nothing at all": (pa.nulls(2), [None, None]),
    "lists of nothing": (pa.array([[], [None], None], pa.list_(pa.null())), [[], None, None]),
    "tensors of one shape and none": (
        pa.ExtensionArray.from_storage(TENSORS, STORED),
        [[[1, 2], [3, 4]], None],
    ),
    "shapes below 0": (
        pa.array([{"data": [1, 2], "shape": [-1, -2]}, {"data": [1, 2], "shape": [-1, 2]}]),
        [None, None],
    ),
}


@pytest.mark.parametrize("name", OTHERWISE_ENCODED)
def test_columns_that_are_encoded_otherwise(name: str) -> None:
    column, expected = OTHERWISE_ENCODED[name]
    for row, back in zip(expected, read_column(column), strict=True):
        assert (row is None) == (back is None)
        if row is not None:
            np.testing.assert_array_equal(back, row)
            assert np.shape(back) == np.shape(row)


def test_a_dimension_behind_nothing_comes_from_what_is_known() -> None:
    column = pa.array([[], [[1.0, 2.0]]])
    assert [row.shape for row in read_column(column, dims=("N", 2)) if row is not None] == [
        (0, 2),
        (1, 2),
    ]


def test_a_column_of_anything_else_is_refused() -> None:
    with pytest.raises(RewriteError, match="holds no tensors; give numbers"):
        read_column(pa.array([{"a": 1}]))


def test_a_tensor_of_another_rank_is_an_error_of_its_sample(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, [("y", np.dtype(np.float32), 1)])
    good = Prediction({"y": np.ones(2, np.float32)})
    other = Prediction({"y": np.ones((2, 2), np.float32)})
    assert folder.write(0, "id", [0, 1], [good, other]) == 1
    rows = pq.read_table(folder.path(0)).to_pylist()
    assert rows[0] == {"id": 0, "y": [1.0, 1.0], "error": None}
    assert rows[1]["y"] is None
    assert "rank 2" in rows[1]["error"]


def test_no_sample_with_a_result_leaves_empty_columns(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, [("y", None, 0)])
    assert folder.write(0, "id", ["a"], [Prediction(error="no")]) == 1
    assert pq.read_table(folder.path(0)).to_pylist() == [{"id": "a", "y": None, "error": "no"}]


def test_a_damaged_record_of_a_job_is_refused(tmp_path: Path) -> None:
    job = Job("digest", "in", 3, None, 2)
    folder = OutputFolder(tmp_path / "out", [])
    assert folder.begin(job, resume=False) == job
    (record,) = (tmp_path / "out").iterdir()
    assert json.loads(record.read_text())["rows"] == 3
    record.write_text("{")
    with pytest.raises(RewriteError, match="damaged"):
        folder.begin(job, resume=True)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"in__x": np.ones((3, 2)), "in__y": np.ones((4, 2))}, "different numbers of samples"),
        ({"in__x": np.ones((3, 2))}, "no samples of 'y': add in__y__0, or in__y"),
        ({"x": np.ones((3, 2))}, "no samples of 'y': add y__0, or y"),
        (
            {"x": np.ones((3, 2)), "y__0": np.ones(2), "y__2": np.ones(2)},
            "has y__2, and no y__1: number the samples from 0 on",
        ),
        ({"x": np.ones(3), "y": np.array([1, "a"], object)}, "in.npz holds Python objects"),
    ],
)
def test_an_npz_file_that_lacks_samples_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(RewriteError, match=message):
        open_rows(tmp_path / "in.npz", {"x": None, "y": None}, None)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and no more", b"text"])
def test_a_damaged_npz_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in.npz").write_bytes(data)
    with pytest.raises(RewriteError, match=r"in\.npz is not an? (readable )?npz file"):
        open_rows(tmp_path / "in.npz", {"x": None}, None)


def test_an_array_that_is_damaged_is_told_when_it_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "in.npz", x__0=np.ones(1), x__1=np.arange(999))
    data = bytearray((tmp_path / "in.npz").read_bytes())
    data[400:420] = bytes(20)
    (tmp_path / "in.npz").write_bytes(data)
    rows = open_rows(tmp_path / "in.npz", {"x": None}, None)
    assert len(rows) == 2
    with pytest.raises(RewriteError, match=r"in\.npz is not a readable npz file"):
        rows.read(0, 2)


def test_rows_of_arrays_and_arrays_by_number_in_an_npz_file(tmp_path: Path) -> None:
    given = {"in__x": np.arange(6).reshape(3, 2), "in__y__0": np.ones(1), "in__y__len": 3}
    np.savez(tmp_path / "in.npz", **given)
    ids, samples = open_rows(tmp_path / "in.npz", {"x": None, "y": None}, None).read(0, 9)
    assert ids == [0, 1, 2]
    np.testing.assert_array_equal(samples[2]["x"], [4, 5])
    assert [sample["y"] is None for sample in samples] == [False, True, True]


def test_names_in_an_npz_file_need_no_prefix(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(6).reshape(3, 2), y__0=np.ones(1), y__len=3)
    ids, samples = open_rows(tmp_path / "in.npz", {"x": None, "y": None}, None).read(0, 9)
    assert ids == [0, 1, 2]
    np.testing.assert_array_equal(samples[2]["x"], [4, 5])
    assert [sample["y"] is None for sample in samples] == [False, True, True]


def test_a_file_is_no_place_for_results(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    for resume in (True, False):
        with pytest.raises(RewriteError, match="out is a file; give a folder for the results"):
            OutputFolder(tmp_path / "out", []).begin(Job("d", "in", 3, None, 2), resume=resume)
    assert (tmp_path / "out").read_text() == "mine"


def test_files_without_columns_have_no_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", in__x=np.ones((3, 2)))
    with pytest.raises(RewriteError, match="leave out --id"):
        open_rows(tmp_path / "in.npz", {"x": None}, "key")
