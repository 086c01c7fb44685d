"""The function for Spark's mapInArrow: alone, and in a local session of Spark."""

from __future__ import annotations

import importlib.util
import pathlib
import pickle
import shutil
import sys
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.apply.arrow import ArrowMapper
from tests.rewriter.apply.test_apply import TEXT, WEIGHTS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

EXAMPLE = pathlib.Path(__file__).parents[3] / "docs" / "howto" / "spark" / "score.py"
COUNT, BAD = 90, {4, 31, 89}


def samples() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        np.ones((2, 5), np.float32) if k in BAD else rng.normal(size=(n, 3)).astype(np.float32)
        for k, n in enumerate(rng.integers(0, 9, COUNT))
    ]


def table() -> Any:
    kind = pa.list_(pa.list_(pa.float32()))
    ids = [f"s{number}" for number in range(COUNT)]
    return pa.table({"id": ids, "xs": pa.array([one.tolist() for one in samples()], kind)})


def check(rows: list[dict[str, Any]]) -> None:
    rows = sorted(rows, key=lambda row: int(row["id"][1:]))
    assert [row["id"] for row in rows] == [f"s{number}" for number in range(COUNT)]
    for number, (row, sample) in enumerate(zip(rows, samples(), strict=True)):
        if number in BAD:
            assert row["error"]
            assert row["ys"] is row["totals"] is None
            continue
        assert row["error"] is None
        expected = sample @ WEIGHTS
        np.testing.assert_allclose(np.reshape(row["ys"], (-1, 2)), expected, rtol=1e-4, atol=1e-5)
        assert row["totals"] == pytest.approx(expected.sum(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("tensor_io", [False, True])
def test_each_row_has_its_result(tensor_io: bool) -> None:
    model = onnx.parser.parse_model(TEXT)
    if tensor_io:
        model = rewriter.optimize(model, tensor_io=True)
    mapper = pickle.loads(pickle.dumps(ArrowMapper(model, keep=["id"], batch_size=8)))
    batches = list(mapper(iter(table().to_batches(max_chunksize=40))))
    assert [batch.num_rows for batch in batches] == [40, 40, 10]
    for batch in batches:
        assert batch.schema == pa.schema([("id", pa.string()), *mapper.schema])
    check([row for batch in batches for row in batch.to_pylist()])


def test_no_batches_give_no_results() -> None:
    assert list(ArrowMapper(onnx.parser.parse_model(TEXT))(iter([]))) == []


@pytest.mark.parametrize(
    ("text", "keep", "message"),
    [
        (TEXT, ["error"], "the results have a column 'error'"),
        (TEXT, ["totals"], "the results have a column 'totals'"),
        (TEXT, ["key"], "the table has no column 'key'; its columns are id, xs"),
        (TEXT.replace("xs", "zs"), [], "no column 'zs'; its columns are id, xs"),
        (
            """<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[N, 3] xs) => (float[] y) { y = Identity (xs) }""".replace("[] y", " y"),
            [],
            "output 'y' has no declared rank",
        ),
    ],
    ids=["error is taken", "an output is taken", "no kept column", "no input", "no rank"],
)
def test_what_does_not_fit_is_said(text: str, keep: list[str], message: str) -> None:
    with pytest.raises(rewriter.RewriteError, match=message):
        list(ArrowMapper(onnx.parser.parse_model(text), keep=keep)(table().to_batches()))


SPARK = {
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "float16": pa.float32(),
    "int8": pa.int8(),
    "bool": pa.bool_(),
    "double": pa.float64(),
}


@pytest.mark.parametrize(("dtype", "expected"), SPARK.items(), ids=SPARK)
def test_spark_gets_types_that_it_has(dtype: str, expected: Any) -> None:
    given = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (seq({dtype}[N]) xs) => (seq({dtype}[N]) ys) '
        "{ ys = Identity (xs) }"
    )
    mapper = ArrowMapper(given, signed=True)
    assert mapper.schema.field("ys").type == pa.list_(expected)
    kind = {"float16": pa.float16(), "bool": pa.bool_(), "double": pa.float64()}.get(dtype)
    values = np.array([[1, 0], [1, 1]], "float64" if dtype == "double" else dtype)
    column = pa.array(list(values), pa.list_(kind or getattr(pa, dtype)()))
    (found,) = mapper(pa.table({"xs": column}).to_batches())
    assert found.schema == mapper.schema
    assert found.column("ys").to_pylist() == values.tolist()
    assert ArrowMapper(given).schema.field("ys").type == column.type


def test_numbers_beyond_all_types_of_spark_are_refused() -> None:
    given = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (seq(uint64[N]) xs) => (seq(uint64[N]) ys) '
        "{ ys = Identity (xs) }"
    )
    with pytest.raises(
        rewriter.RewriteError, match="'ys' is of type uint64, which Spark does not have"
    ):
        ArrowMapper(given, signed=True)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("java"), reason="no java")
@pytest.mark.filterwarnings("default")
def test_a_local_session_of_spark(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sql = pytest.importorskip("pyspark.sql")
    spec = importlib.util.spec_from_file_location("score", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "model.onnx")
    pq.write_table(table(), tmp_path / "in.parquet")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    try:
        frame = spark.read.parquet(str(tmp_path / "in.parquet")).repartition(3)
        with pytest.raises(SystemExit, match="no column 'key'"):
            example.score(frame, str(tmp_path / "model.onnx"), "key")
        scored = example.score(frame, str(tmp_path / "model.onnx"))
        scored.write.parquet(str(tmp_path / "out"))
    finally:
        spark.stop()
    check(pq.read_table(tmp_path / "out").to_pylist())
