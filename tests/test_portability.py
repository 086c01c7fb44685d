"""The portability matrix: its verdicts, and that it names every model of the zoo."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import onnx
import pytest

from benchmarks import portability, workers
from benchmarks.lacking import lacking, plain_line
from benchmarks.portability import (
    RESULTS,
    ROOT,
    Left,
    _rewritten,
    _what_is_left,
)
from benchmarks.workers import Worker, verdict
from rewriter.model_files import on_disk

RELU = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
)
FEEDS = {"x": np.float32([-1, 2])}
RIGHT = {"y": np.float32([0, 2])}


@pytest.mark.parametrize(
    ("text", "right", "expected"),
    [
        ("y = Relu (x)", [RIGHT], "right"),
        ("y = Relu (x)", [{"y": np.float32([9, 9])}, RIGHT], "right"),
        ("y = Neg (x)", [RIGHT], "wrong"),
        ("s = Constant <value_ints = [3]> () y = Reshape (x, s)", [RIGHT], "fails"),
    ],
)
def test_verdicts(text: str, right: list, expected: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[N] y) {{ {text} }}'
    )
    assert verdict("reference", model, FEEDS, right)[0] == expected


def test_what_is_refused() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>'
        "g (float[2] x) => (float[2] y) { y = com.example.Unheard (x) }"
    )
    assert verdict("onnxruntime", model, FEEDS, [RIGHT])[0] == "refused"


@pytest.mark.long
def test_a_worker_that_dies_costs_one_cell() -> None:
    data = RELU.SerializeToString()
    worker = Worker("reference")
    try:
        assert worker.ask(data, FEEDS, [RIGHT]) == ("right", "")
        worker._process.kill()
        worker._process.wait()
        assert worker.ask(data, FEEDS, [RIGHT]) == ("crash", "")
        assert worker.ask(data, FEEDS, [RIGHT]) == ("right", "")
    finally:
        worker.stop()


def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.01)  # less than a process takes to begin
    data = RELU.SerializeToString()
    worker = Worker("reference")
    try:
        assert worker.ask(data, FEEDS, [RIGHT]) == ("hangs", "")
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
    assert _rewritten(on_disk.load(path))[1:] == ("portable", "")


def test_what_is_not_portable_says_why() -> None:
    path = pathlib.Path(ROOT / "models" / "exported" / "ts_rnn_negative.onnx")
    _, form, why = _rewritten(on_disk.load(path))
    assert form == "1 loops"
    assert "target portable rules out Loop" in why


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        (
            "onnx2torch refuses the model: Converter is not implemented "
            "(OperationDescription(domain='', operation_type='ScatterElements', version=16))",
            "ScatterElements",
        ),
        ("jaxonnxruntime refuses the model: CumSum is not implemented.", "CumSum"),
        (
            "jaxonnxruntime refuses the model: Identity version 25 is not implemented. Only have",
            "Identity",
        ),
        (
            "IREE refuses the model: Resize, StringConcat is not implemented",
            "Resize, StringConcat",
        ),
        ("tinygrad refuses the model: op='Loop' is not supported", "Loop"),
        ("tinygrad refuses the model: antialias is not implemented", "'antialias' of Resize"),
        ("tinygrad refuses the model: 8 is not a valid OnnxDataType", "strings"),
        ("tract refuses the model: dtype('O')", "strings"),
        (
            'tract refuses the model: Translating node #25 "a/b" ConstantOfShape ToTypedTranslator '
            "Caused by: shape input is variable",
            "ConstantOfShape of computed size",
        ),
        (
            'tract refuses the model: Translating node #1 "a" Unimplemented(SplitToSequence) To',
            "SplitToSequence",
        ),
        (
            "tract takes no notice of 'antialias' of Resize and would give other results",
            "'antialias' of Resize",
        ),
        (
            "OpenVINO refuses the model: Model wasn't fully converted. Summary: "
            "-- No conversion rule found for operations: StringConcat-20",
            "StringConcat",
        ),
        (
            "TVM refuses the model: The following operators are not supported for frontend ONNX: Loop",
            "Loop",
        ),
        (
            "TVM refuses the model: non-symbolic shape is not supported for now",
            "shapes that are computed",
        ),
        (
            "onnx2torch refuses the model: Resize of mode nearest with half_pixel is not implemented",
            "Resize of mode nearest with half_pixel",
        ),
        (
            "TVM refuses the model: Reshape requires the input new shape to be Shape. However, the",
            "shapes that are computed",
        ),
        (
            "IREE refuses the model: Error invoking IREE compiler tool iree-compile Diagnostics: "
            "error: failed to legalize operation 'torch.aten.broadcast_to' that was",
            "aten.broadcast_to",
        ),
        ("IREE is not asked to run If", "If"),
        ("TVM fails: match_cast error, shape[1] mismatch", ""),
    ],
)
def test_what_a_backend_lacks(message: str, lacks: str) -> None:
    assert lacking(message) == lacks


def test_a_line_has_no_places_and_an_end() -> None:
    assert plain_line("a | b at /tmp/x/y.py and <stdin>:3:4 c") == "a / b at  and  c"
    assert len(plain_line("a" * 999)) < 200


def test_what_is_left_is_counted_and_named() -> None:
    left = [
        Left("a.onnx", "tvm", "refused", "TVM refuses the model: unknown dtype `object`"),
        Left("b.onnx", "tvm", "wrong", "y[0] is 1 and should be 2"),
    ]
    lines = list(_what_is_left(["tvm", "iree"], 5, left))
    assert "| tvm | 3 | 1 | 1 | strings (1) |" in lines
    assert "| iree | 5 | 0 | 0 |  |" in lines
    assert "| a.onnx | tvm | refused | lacks strings |" in lines
    assert "| b.onnx | tvm | wrong | y[0] is 1 and should be 2 |" in lines


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.md")), ids=lambda p: p.name)
def test_every_row_of_a_table_has_its_columns(path: pathlib.Path) -> None:
    """A row that was put into another table tells nothing."""
    columns = 0
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert cells in (columns, 0) or not columns, f"line {number} has {cells - 1} columns"
        columns = cells
