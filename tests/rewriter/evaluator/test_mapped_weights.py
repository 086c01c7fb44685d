"""Large weights in other files are mapped into memory, not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from rewriter.backends import BackendError, open_session
from rewriter.evaluator import mapped_weights
from rewriter.evaluator.reference import ReferenceEvaluator

SHAPE = (3, 4)
TYPES = ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "INT64", "BOOL", "FLOAT8E4M3FN", "INT4"]


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_weights, "_LARGE", 1)


def _written(folder: Path, kind: str = "FLOAT") -> onnx.ModelProto:
    """Write a model that returns its weights, beside them; return the model that holds them."""
    type_ = TensorProto.DataType.Value(kind)
    weights = onnx.helper.make_tensor("w", type_, SHAPE, np.arange(12) % 7)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [onnx.helper.make_tensor_value_info("y", type_, SHAPE)],
        [onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights), "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    onnx.save(
        apart, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return model


@pytest.mark.parametrize("kind", TYPES)
def test_they_are_the_same(tmp_path: Path, kind: str) -> None:
    (expected,) = ReferenceEvaluator(_written(tmp_path, kind)).run(None, {})
    (found,) = ReferenceEvaluator(tmp_path / "m.onnx").run(None, {})
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


def test_they_stay_in_the_file(tmp_path: Path) -> None:
    _written(tmp_path)
    evaluator = ReferenceEvaluator(tmp_path / "m.onnx")
    data = np.arange(12, dtype=np.float32)[::-1].reshape(SHAPE)
    with (tmp_path / "w.bin").open("r+b") as file:
        file.write(data.tobytes())
    np.testing.assert_array_equal(evaluator.run(None, {})[0], data)


@pytest.mark.parametrize("size", [None, 8], ids=["missing", "too short"])
def test_weights_that_cannot_be_read_are_told(tmp_path: Path, size: int | None) -> None:
    _written(tmp_path)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    if size is None:
        (tmp_path / "w.bin").unlink()
    else:
        (tmp_path / "w.bin").write_bytes(bytes(size))
    with pytest.raises(Exception, match=r"w\.bin|weights"):
        ReferenceEvaluator(model, folder=tmp_path)


def test_a_session_maps_them(tmp_path: Path) -> None:
    _written(tmp_path)
    found = open_session(tmp_path / "m.onnx", "reference").run({})
    assert found["y"].tolist() == (np.arange(12) % 7).reshape(SHAPE).tolist()
    (tmp_path / "w.bin").unlink()
    with pytest.raises(BackendError, match="weights"):
        open_session(tmp_path / "m.onnx", "reference")
