"""``seqmap apply``: odd columns, places that cannot be written to, and Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from passes.errors import RewriteError
from rewriter.apply.parts import OutputFolder
from rewriter.apply.results import Column
from rewriter.cli import main
from rewriter.running.predictor import Prediction

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SUMS = """<ir_version: 9, opset_import: ["" : 18]> g (seq(float[N]) xs) => (seq(float) ys) {
    ys = SequenceMap (xs) <body = b (float[N] x) => (float y) {
        y = ReduceSum <keepdims = 0> (x) }> }"""
IMAGES = """<ir_version: 9, opset_import: ["" : 18]>
    g (seq(uint8[H, W, 3]) xs) => (seq(uint8[H, W, 3]) ys) { ys = Identity (xs) }"""


def applied(folder: Path, table: Any, *words: str, text: str = SUMS, name: str = "in.pq") -> int:
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    pq.write_table(table, folder / name)
    return main(
        ["apply", str(folder / "model.onnx"), str(folder / name), str(folder / "out"), *words]
    )


@pytest.mark.parametrize(
    ("table", "words", "message"),
    [
        (
            pa.Table.from_arrays([pa.array([[1.0]])] * 2, names=["xs", "xs"]),
            (),
            "has 2 columns 'xs'",
        ),
        (
            pa.Table.from_arrays([pa.array([[1.0]])] * 3, names=["xs", "k", "k"]),
            ("--id", "k"),
            "has 2 columns 'k'",
        ),
        (pa.table({"xs": [{"a": 1}]}), (), "column 'xs': struct<a: int64> holds no tensors"),
        (pa.table({"xs": [[b"a"]]}), (), "column 'xs': binary holds no tensors"),
    ],
    ids=["two of one name", "two ids", "structs", "bytes in lists"],
)
def test_columns_that_cannot_be_read_are_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    table: Any,
    words: tuple[str, ...],
    message: str,
) -> None:
    assert applied(tmp_path, table, *words) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()


def test_names_of_files_may_be_in_capitals(tmp_path: Path) -> None:
    assert applied(tmp_path, pa.table({"xs": [[1.0, 2.0], []]}), name="IN.PARQUET") == 0
    assert pq.read_table(tmp_path / "out")["ys"].to_pylist() == [3.0, 0.0]


@pytest.mark.parametrize("form", ["bytes", "bytes and path"])
def test_a_column_of_images_as_bytes(tmp_path: Path, form: str) -> None:
    image = pytest.importorskip("PIL.Image")
    given = [np.full((2 + k, 5 - k, 3), 40 * k, np.uint8) for k in range(3)]
    files: list[bytes | None] = []
    for pixels in given:
        image.fromarray(pixels).save(file := io.BytesIO(), "png")
        files.append(file.getvalue())
    files += [b"no image", None]
    paths = [{"bytes": one, "path": "a.png"} for one in files]
    table = pa.table({"xs": files if form == "bytes" else [*paths, None]})
    assert applied(tmp_path, table, text=IMAGES) == 3
    rows = pq.read_table(tmp_path / "out").to_pylist()
    for pixels, row in zip(given, rows, strict=False):
        np.testing.assert_array_equal(np.array(row["ys"], np.uint8), pixels)
    assert "is not a readable image" in rows[3]["error"]
    assert all("has no value for input 'xs'" in row["error"] for row in rows[4:])


def test_a_place_that_is_no_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("mine")
    words = ["apply", str(tmp_path / "model.onnx"), str(tmp_path / "in.pq")]
    applied(tmp_path, pa.table({"xs": [[1.0]]}))
    capsys.readouterr()
    assert main([*words, str(tmp_path / "out" / "inside")]) == 1
    told = capsys.readouterr().err
    assert "inside: not a directory; choose another place" in told
    assert "Traceback" not in told


def test_a_part_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: Any, file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    outputs: list[Column] = [("y", np.dtype(np.float32), 0)]
    with pytest.raises(RewriteError, match=r"00000\.parquet: no space left on device; make room"):
        OutputFolder(tmp_path, outputs).write(0, "id", [0], [Prediction({"y": np.float32(1)})])
    assert not os.listdir(tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_while_workers_start_is_one_line(tmp_path: Path) -> None:
    table = pa.table({"xs": [[float(k)] for k in range(3000)]})
    onnx.save(onnx.parser.parse_model(SUMS), tmp_path / "model.onnx")
    pq.write_table(table, tmp_path / "in.pq")
    words = ["apply", "model.onnx", "in.pq", "out", "--workers", "2", "--part-size", "10"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rewriter.cli", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "out" / "_job.json").exists() and running.poll() is None:
        time.sleep(0.01)
    time.sleep(0.5)  # the workers import what they need
    os.killpg(running.pid, signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told.splitlines()[-1] == "seqmap: error: interrupted"
    assert "Traceback" not in told
