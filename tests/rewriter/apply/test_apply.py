"""``seqmap apply``: every sample in one row of the results, across errors and crashes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rewriter.cli import main
from rewriter.commands.apply import told_rate

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (seq(float[N, 3]) xs) => (seq(float[N, 2]) ys, seq(float) totals)
<float[3, 2] w = {0, 1, 2, 3, 4, 5}> {
    ys, totals = SequenceMap (xs) <
        body = body (float[N, 3] x) => (float[N, 2] y, float total) {
            y = MatMul (x, w)
            total = ReduceSum <keepdims = 0> (y)
        }
    >
}
"""


def _write(folder: Path, count: int, bad: frozenset[int] = frozenset()) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    samples = [rng.normal(size=(n, 3)).astype(np.float32) for n in rng.integers(0, 9, count)]
    given = [np.ones((2, 5), np.float32) if k in bad else x for k, x in enumerate(samples)]
    kind = pa.list_(pa.list_(pa.float32()))
    columns = {
        "key": [f"s{number}" for number in range(count)],
        "xs": pa.array([one.tolist() for one in given], kind),
    }
    pq.write_table(pa.table(columns), folder / "in.parquet", row_group_size=100)
    onnx.save(onnx.parser.parse_model(TEXT), folder / "model.onnx")
    return samples


def _apply(folder: Path, *words: str, source: str = "in.parquet") -> int:
    return main(
        ["apply", str(folder / "model.onnx"), str(folder / source), str(folder / "out"), *words]
    )


def _check(
    folder: Path, samples: list[np.ndarray], bad: frozenset[int] = frozenset(), id_: str = "id"
) -> None:
    rows = pq.read_table(folder / "out").to_pylist()
    rows.sort(key=lambda row: int(str(row[id_]).removeprefix("s")))
    assert [int(str(row[id_]).removeprefix("s")) for row in rows] == list(range(len(samples)))
    for number, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        if number in bad:
            assert row["error"]
            assert row["ys"] is row["totals"] is None
            continue
        assert row["error"] is None
        expected = sample @ WEIGHTS
        assert len(row["ys"]) == len(expected)
        np.testing.assert_allclose(np.reshape(row["ys"], (-1, 2)), expected, rtol=1e-4, atol=1e-5)
        assert row["totals"] == pytest.approx(expected.sum(), rel=1e-4, abs=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--workers", "2")])
def test_each_sample_has_a_row_with_its_id(tmp_path: Path, words: tuple[str, ...]) -> None:
    samples = _write(tmp_path, 230)
    assert _apply(tmp_path, "--id", "key", "--part-size", "50", "--batch-size", "16", *words) == 0
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) == 5
    _check(tmp_path, samples, id_="key")


@pytest.mark.long
def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    samples = _write(tmp_path, 40)
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom rewriter.cli import main\nprint('script')\nsys.exit(main(sys.argv[1:]))\n"
    )
    words = ["apply", "model.onnx", "in.parquet", "out", "--part-size", "10", "--workers", "2"]
    ran = subprocess.run(
        [sys.executable, script, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("script\n") == 1
    _check(tmp_path, samples, id_="id")


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        pytest.param(["a", "b", "c", "d"], "", id="fit"),
        pytest.param(["a", "b", "a", "a"], "2 have one that stands before", id="doubled"),
        pytest.param(["a", None, "c", None], "2 of 4 samples have none", id="absent"),
        pytest.param(
            [1, None, 1, 2],
            "1 of 4 samples have none and 1 have one that stands before",
            id="both",
        ),
        pytest.param([[1], [2], [1], [2]], "", id="lists are not compared"),
    ],
)
def test_ids_that_do_not_tell_samples_apart_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[Any], complaint: str
) -> None:
    _write(tmp_path, len(keys))
    table = pq.read_table(tmp_path / "in.parquet")
    pq.write_table(table.set_column(0, "key", pa.array(keys)), tmp_path / "in.parquet")
    assert _apply(tmp_path, "--id", "key") == 0
    told = capsys.readouterr().err
    assert complaint in told
    assert ("does not tell the samples apart" in told) is bool(complaint)
    assert pq.read_table(tmp_path / "out").column("key").to_pylist() == keys


def test_bad_samples_have_an_error_and_the_status_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = frozenset({0, 3, 77, 119})
    samples = _write(tmp_path, 120, bad)
    assert _apply(tmp_path) == 3
    assert "4 samples failed" in capsys.readouterr().err
    _check(tmp_path, samples, bad)


def test_samples_behind_a_bad_first_batch_of_one_keep_their_results(tmp_path: Path) -> None:
    bad = frozenset({0, 1, 5})
    samples = _write(tmp_path, 8, bad)
    assert _apply(tmp_path, "--batch-size", "1", "--part-size", "2") == 3
    _check(tmp_path, samples, bad)


def test_no_samples_give_one_part_without_rows(tmp_path: Path) -> None:
    _write(tmp_path, 0)
    assert _apply(tmp_path, "--id", "key") == 0
    table = pq.read_table(tmp_path / "out")
    assert table.num_rows == 0
    assert table.column_names == ["key", "ys", "totals", "error"]
    assert _apply(tmp_path, "--id", "key", "--resume") == 0


def test_columns_have_their_types_without_a_right_sample(tmp_path: Path) -> None:
    schemas = []
    for count, bad, status in ((0, (), 0), (1, (0,), 3), (2, (), 0)):
        folder = tmp_path / str(count)
        folder.mkdir()
        _write(folder, count, frozenset(bad))
        assert _apply(folder) == status
        schemas.append(pq.read_schema(folder / "out" / "part-00000.parquet"))
    assert schemas[0] == schemas[1] == schemas[2]


def test_as_many_errors_as_allowed_are_no_failure(tmp_path: Path) -> None:
    _write(tmp_path, 50, frozenset({7}))
    assert _apply(tmp_path, "--max-errors", "1") == 0


def test_a_first_batch_of_errors_stops_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, 40, frozenset(range(40)))
    assert _apply(tmp_path) == 1
    assert "every sample of the first batch fails" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_refused_and_another_job_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, 30)
    assert _apply(tmp_path) == 0
    assert _apply(tmp_path) == 1
    assert "--resume" in capsys.readouterr().err
    assert _apply(tmp_path, "--resume") == 0
    assert _apply(tmp_path, "--resume", "--id", "key") == 1
    assert "another job" in capsys.readouterr().err


IDS = {
    "int32": pa.array([1, 2, 3, 4], pa.int32()),
    "beyond int64": pa.array([1, 2, 3, 2**63 + 5], pa.uint64()),
    "none in the first part": pa.array([None, None, "a", "b"]),
    "a dictionary": pa.array(["a", "b", "c", "d"]).dictionary_encode(),
    "decimals": pa.array([Decimal("1.5"), Decimal("100.25"), Decimal(2), Decimal(3)]),
    "structs": pa.array([{"a": 1, "b": None}, {"a": 2}, {"b": "x"}, {"b": "y"}]),
    "nanoseconds": pa.array([1, 2, 3, 4], pa.timestamp("ns", "UTC")),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_type_keep_it_in_every_part(tmp_path: Path, kind: str) -> None:
    _write(tmp_path, 4)
    table = pq.read_table(tmp_path / "in.parquet").set_column(0, "key", IDS[kind])
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3)
    assert _apply(tmp_path, "--id", "key", "--part-size", "2") == 0
    found = pq.read_table(tmp_path / "out").column("key")
    expected = IDS[kind]
    if kind == "a dictionary":
        expected = expected.dictionary_decode()
    assert found.combine_chunks().equals(expected)


def test_ids_of_two_types_are_refused_by_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, 4)
    table = pq.read_table(tmp_path / "in.parquet")
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    numbered = table.set_column(0, "key", pa.array(range(4)))
    pq.write_table(numbered, tmp_path / "in" / "b.parquet")
    assert _apply(tmp_path, "--id", "key", source="in") == 1
    told = capsys.readouterr().err
    assert "column 'key' is string in" in told and "a.parquet and int64 in" in told


@pytest.mark.parametrize("changed", ["samples", "shared", "weights"])
def test_a_job_whose_files_have_changed_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    text = TEXT.replace("(seq(float[N, 3]) xs)", "(seq(float[N, 3]) xs, float bias)", 1)
    _write(tmp_path, 5)
    model = onnx.parser.parse_model(
        text.replace("y = MatMul", "m = MatMul").replace(
            "total = Red", "y = Add (m, bias) total = Red"
        )
    )
    model.graph.initializer[0].raw_data = WEIGHTS.tobytes()
    model.graph.initializer[0].ClearField("float_data")
    files = {"save_as_external_data": True, "location": "weights", "size_threshold": 0}
    onnx.save(model, tmp_path / "model.onnx", **files)
    np.savez(tmp_path / "shared.npz", in__bias=np.float32(1))
    words = ("--shared", str(tmp_path / "shared.npz"))
    assert _apply(tmp_path, *words) == 0
    assert _apply(tmp_path, "--resume", *words) == 0
    if changed == "samples":
        table = pq.read_table(tmp_path / "in.parquet")
        pq.write_table(table.take(list(range(5))[::-1]), tmp_path / "in.parquet")
    elif changed == "shared":
        np.savez(tmp_path / "shared.npz", in__bias=np.float32(2))
    else:
        (tmp_path / "weights").write_bytes((WEIGHTS + 1).tobytes())
    assert _apply(tmp_path, "--resume", *words) == 1
    assert "another job" in capsys.readouterr().err


def test_a_damaged_part_is_named_and_made_again_when_it_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = _write(tmp_path, 5)
    assert _apply(tmp_path, "--part-size", "2") == 0
    part = tmp_path / "out" / "part-00001.parquet"
    part.write_bytes(b"half")
    assert _apply(tmp_path, "--resume") == 1
    assert "part-00001.parquet is damaged; remove it" in capsys.readouterr().err
    part.unlink()
    assert _apply(tmp_path, "--resume") == 0
    _check(tmp_path, samples)


def test_results_are_not_written_among_the_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, 2)
    (tmp_path / "in").mkdir()
    (tmp_path / "in.parquet").rename(tmp_path / "in" / "a.parquet")
    source = tmp_path / "in"
    words = ["apply", str(tmp_path / "model.onnx"), str(source), str(source / "out")]
    assert main(words) == 1
    assert "all files there are read; give another OUT" in capsys.readouterr().err


def _killed_after(folder: Path, parts: int, words: list[str]) -> None:
    """Start a job in a process group of its own and kill the group once some parts are there."""
    command = [sys.executable, "-m", "rewriter.cli", "apply", str(folder / "model.onnx")]
    command += [str(folder / "in.parquet"), str(folder / "out"), *words]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            if len(list((folder / "out").glob("part-*.parquet"))) >= parts:
                break
            time.sleep(0.002)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _kill_and_resume(folder: Path, count: int, errors: int, words: list[str]) -> None:
    rng = np.random.default_rng(1)
    bad = frozenset(rng.choice(count, errors, replace=False).tolist())
    samples = _write(folder, count, bad)
    total = -(-count // 50)
    words = ["--id", "key", *words]
    _killed_after(folder, total // 3, [*words, "--part-size", str(50)])
    there = {part: part.stat().st_mtime_ns for part in (folder / "out").glob("part-*.parquet")}
    assert total // 3 <= len(there) < total
    (folder / "out" / "part-99999.1.partial").write_bytes(b"half of a part")
    assert _apply(folder, *words, "--resume") == 3
    assert all(part.stat().st_mtime_ns == written for part, written in there.items())
    assert not list((folder / "out").glob("*.partial"))
    _check(folder, samples, bad, id_="key")


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_a_killed_job_is_resumed_without_a_row_lost_or_doubled(tmp_path: Path) -> None:
    _kill_and_resume(tmp_path, 3000, 5, ["--batch-size", "8"])


@pytest.mark.full
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_many_samples_on_each_engine_killed_and_resumed(tmp_path: Path, engine: str) -> None:
    pytest.importorskip(engine if engine == "ray" else "pyarrow")
    _kill_and_resume(tmp_path, 100_000, 50, ["--engine", engine, "--workers", "2"])


def _npz_sequence(samples: list[np.ndarray]) -> dict[str, Any]:
    return {f"in__xs__{number}": sample for number, sample in enumerate(samples)}


def test_samples_of_an_npz_file(tmp_path: Path) -> None:
    samples = _write(tmp_path, 20)
    np.savez(tmp_path / "in.npz", **_npz_sequence(samples))
    assert _apply(tmp_path, source="in.npz") == 0
    _check(tmp_path, samples)


@pytest.mark.parametrize("form", ["flat lists and shapes", "lists of fixed size", "one row null"])
def test_other_columns(tmp_path: Path, form: str) -> None:
    samples = _write(tmp_path, 20)
    flat = pa.array([sample.ravel().tolist() for sample in samples], pa.list_(pa.float32()))
    shapes = pa.array([list(sample.shape) for sample in samples], pa.list_(pa.int64()))
    fixed = pa.list_(pa.list_(pa.float32(), 3))
    nested = [None if form == "one row null" and k == 4 else x for k, x in enumerate(samples)]
    columns = {
        "flat lists and shapes": {"xs": flat, "xs.shape": shapes},
        "lists of fixed size": {"xs": pa.array([x.tolist() for x in samples], fixed)},
        "one row null": {"xs": pa.array([x if x is None else x.tolist() for x in nested], fixed)},
    }
    pq.write_table(pa.table(columns[form]), tmp_path / "in.parquet")
    bad = frozenset({4}) if form == "one row null" else frozenset()
    assert _apply(tmp_path) == (3 if bad else 0)
    _check(tmp_path, samples, bad)


def test_images_of_a_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (seq(uint8[H, W, 3]) xs) => (seq(uint8[H, W, 3]) ys) { ys = Identity (xs) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (4 + k, 9 - k, 3), np.uint8) for k in range(4)]
    for number, pixels in enumerate(images):
        image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    (tmp_path / "images" / "4.png").write_bytes(b"no image")
    assert _apply(tmp_path, source="images") == 3
    rows = pq.read_table(tmp_path / "out").to_pylist()
    for pixels, row in zip(images, rows[:4], strict=True):
        np.testing.assert_array_equal(np.array(row["ys"], np.uint8), pixels)
    assert "4.png is not a readable image" in rows[4]["error"]
    assert [row["id"] for row in rows] == list(range(5))


def test_images_of_other_modes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (seq(uint8[H, W, 3]) xs) => (seq(uint8[H, W, 3]) ys) { ys = Identity (xs) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    (tmp_path / "images").mkdir()
    gray = np.arange(6, dtype=np.uint8).reshape(2, 3)
    image.fromarray(gray).save(tmp_path / "images" / "0.png")
    image.fromarray(np.dstack([gray] * 4)).save(tmp_path / "images" / "1.png")
    image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / "images" / "2.png")
    image.fromarray(gray.astype(np.float32)).save(tmp_path / "images" / "3.tiff")
    assert _apply(tmp_path, source="images") == 3
    *bytes_, wide, floats = pq.read_table(tmp_path / "out").to_pylist()
    for row in bytes_:
        np.testing.assert_array_equal(row["ys"], np.dstack([gray] * 3))
    assert wide["error"] == "2.png has pixels of more than 8 bits; make them bytes first"
    assert floats["error"].startswith("3.tiff has pixels of more than 8 bits")


def test_images_may_be_called_by_their_names(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (seq(uint8[H, W, 3]) xs) => (seq(uint8[H, W, 3]) ys) { ys = Identity (xs) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    for name in ("a.png", "cats/a.png", "cats/b.png"):
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (2, 3)).save(file)
    assert _apply(tmp_path, "--id", "file", source="images") == 0
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["file"] for row in rows] == ["a.png", "cats/a.png", "cats/b.png"]


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        ("nowhere.parquet", (), "does not exist"),
        ("model.onnx", (), "holds no samples"),
        ("in.parquet", ("--id", "nokey"), "no column 'nokey'"),
        ("damaged.parquet", (), "not a readable Parquet file"),
        ("in.parquet", ("--id", "error"), "would be called 'error', like that of errors"),
        ("in.parquet", ("--id", "ys"), "would be called 'ys', like that of an output"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    words: tuple[str, ...],
    message: str,
) -> None:
    _write(tmp_path, 3)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    assert _apply(tmp_path, *words, source=source) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_inputs_that_all_samples_share(tmp_path: Path) -> None:
    text = TEXT.replace("(seq(float[N, 3]) xs)", "(seq(float[N, 3]) xs, float[3, 2] w)", 1)
    text = text.replace("<float[3, 2] w = {0, 1, 2, 3, 4, 5}> {", "{")
    samples = _write(tmp_path, 5)
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    np.savez(tmp_path / "shared.npz", in__w=WEIGHTS)
    assert _apply(tmp_path, "--id", "key", "--shared", str(tmp_path / "shared.npz")) == 0
    _check(tmp_path, samples, id_="key")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("error", "output 'error' has the name of the column of errors"),
        ("id", "the column of ids would be called 'id', like that of an output"),
    ],
)
def test_an_output_called_like_another_column_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str, message: str
) -> None:
    _write(tmp_path, 3)
    text = TEXT.replace(" ys", f" {output}")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    assert _apply(tmp_path) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rate", "told"), [(0.126, "0.13"), (9.96, "10"), (10, "10"), (3056.6, "3,057")]
)
def test_few_samples_a_second_are_told_in_two_digits(rate: float, told: str) -> None:
    assert told_rate(rate) == f"{told} samples a second"


def test_an_engine_that_is_missing_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "ray" else find_spec(n)
    )
    _write(tmp_path, 3)
    assert _apply(tmp_path, "--engine", "ray") == 1
    assert "the engine ray is not installed; install seqmap[ray]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
