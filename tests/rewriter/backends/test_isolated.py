"""A process of its own for what may end the process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest

from rewriter.backends import BackendError, isolated
from rewriter.evaluator.run_watch import OverBudgetError, RunWatch

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { y = Neg (x) }'
).SerializeToString()
RUNTIME = "rewriter.backends.onnxruntime"


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[isolated._Child]:
    one = isolated._Child()
    monkeypatch.setattr(isolated, "_KEPT", one)
    yield one
    one.close()


def run(watch: RunWatch | None = None) -> list[float]:
    feeds = {"x": np.array([1, -2], np.float32)}
    return list(isolated.run(RUNTIME, MODEL, None, "cpu", feeds, watch, again=True)["y"])


@pytest.mark.long
def test_a_child_is_kept_and_started_again_when_it_has_ended(child: isolated._Child) -> None:
    assert run() == [-1, 2]
    first = child._process
    assert first is not None
    assert run() == [-1, 2]
    assert child._process is first
    first.kill()
    with pytest.raises(BackendError, match="it ended its process by signal 9"):
        run()
    assert run() == [-1, 2]
    assert child._process is not first


def test_a_child_that_is_late_is_ended(child: isolated._Child) -> None:
    with pytest.raises(OverBudgetError, match="its share of the time is over"):
        run(RunWatch(time.monotonic(), 10**9))
    assert child._process is None


def test_what_ends_a_run_does_not_end_the_child(child: isolated._Child) -> None:
    data = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 18]> g (float[B, T, N] x) => (float[B, T, N] y) {
        y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[B, N] e) => (float[B, N] o) { o = Neg (e) }> (x) }"""
    ).SerializeToString()
    assert run() == [-1, 2]
    first = child._process
    with pytest.raises(BackendError, match="it ended its process by signal"):
        feeds = {"x": np.zeros((0, 2, 1), np.float32)}
        isolated.run(RUNTIME, data, None, "cpu", feeds, again=True)
    assert run() == [-1, 2]
    assert child._process is first


def test_what_the_backend_refuses_is_said(child: isolated._Child) -> None:
    with pytest.raises(BackendError, match="onnxruntime fails"):
        isolated.run(RUNTIME, MODEL, None, "cpu", {"x": np.zeros(2, np.int8)}, again=True)
    assert child._process is not None


def test_another_process_each_time() -> None:
    feeds = {"x": np.array([3], np.float32)}
    assert isolated.run(RUNTIME, MODEL, None, "cpu", feeds)["y"] == -3
