"""The portability matrix: its verdicts, and that it names every model of the zoo."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import onnx
import pytest

from benchmarks import portability
from benchmarks.portability import RESULTS, ROOT, Row, _rewritten, _verdict, _Worker
from rewriter import models

RELU = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
)
FEEDS = {"x": np.float32([-1, 2])}
RIGHT = {"y": np.float32([0, 2])}


@pytest.mark.parametrize(
    ("text", "right", "verdict"),
    [
        ("y = Relu (x)", [RIGHT], "right"),
        ("y = Relu (x)", [{"y": np.float32([9, 9])}, RIGHT], "right"),
        ("y = Neg (x)", [RIGHT], "wrong"),
        ("s = Constant <value_ints = [3]> () y = Reshape (x, s)", [RIGHT], "fails"),
    ],
)
def test_verdicts(text: str, right: list, verdict: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[N] y) {{ {text} }}'
    )
    assert _verdict("reference", model, FEEDS, right)[0] == verdict


def test_what_is_refused() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>'
        "g (float[2] x) => (float[2] y) { y = com.example.Unheard (x) }"
    )
    assert _verdict("onnxruntime", model, FEEDS, [RIGHT])[0] == "refused"


def row(data: bytes) -> Row:
    return Row("relu", "portable", data, data, FEEDS, [RIGHT], "")


def test_a_worker_that_dies_costs_one_cell() -> None:
    data = RELU.SerializeToString()
    worker = _Worker("reference")
    try:
        assert worker.ask(data, row(data)) == ("right", "")
        worker._process.kill()
        worker._process.wait()
        assert worker.ask(data, row(data)) == ("crash", "")
        assert worker.ask(data, row(data)) == ("right", "")
    finally:
        worker.stop()


def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portability, "PATIENCE", 0.01)  # less than a process takes to begin
    data = RELU.SerializeToString()
    worker = _Worker("reference")
    try:
        assert worker.ask(data, row(data)) == ("hangs", "")
    finally:
        worker.stop()


def test_the_matrix_names_every_model() -> None:
    text = RESULTS.read_text("utf-8")
    named = set(re.findall(r"^(?:\| |- )(\S+\.onnx(?:txt)?)\b", text, re.MULTILINE))
    folders = [ROOT / "models" / folder for folder in portability.FOLDERS]
    models_ = {p.name for folder in folders for p in folder.iterdir() if "onnx" in p.suffix}
    assert models_ - named == set(), "run python -m benchmarks.portability"


def test_the_form_that_a_model_takes() -> None:
    path = pathlib.Path(ROOT / "models" / "text" / "chain.onnxtxt")
    assert _rewritten(models.load(path))[1:] == ("portable", "")


def test_what_is_not_portable_says_why() -> None:
    path = pathlib.Path(ROOT / "models" / "exported" / "ts_rnn_negative.onnx")
    _, form, why = _rewritten(models.load(path))
    assert form == "1 loops"
    assert "target portable rules out Loop" in why
