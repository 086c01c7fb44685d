"""Models for the evaluator as text, and how its results are compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx


def parse(text: str, opset: int = 22) -> onnx.ModelProto:
    local = ', "local": 1' if "local" in text else ""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}{local}]>\n{text}')


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i64(value: Any) -> np.ndarray:
    return np.array(value, np.int64)


def assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        return
    assert isinstance(actual, np.ndarray)
    assert actual.shape == expected.shape
    if expected.dtype.kind not in "OU":
        assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, its feeds, its outputs, and why onnxruntime is not asked (empty: it is)."""

    text: str
    feeds: dict[str, Any]
    expected: list[Any]
    ort: str = ""


A, B, C = f32(1, 2), f32(3), f32(4, 5, 6)


def assert_close(actual: Any, expected: Any, name: str) -> None:
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected), name
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, name)
        return
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype, name
    assert actual.shape == expected.shape, name
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5, err_msg=name
    )


def run_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
