"""The clock: several models of one task, run in turns on one thread of onnxruntime."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping
from typing import Any

import onnx
import onnx.inliner
import onnxruntime

from rewriter.proof.compare import compare

__all__ = [
    "Refused",
    "Times",
    "expand_with_onnx",
    "measure",
    "open_session",
    "own_feeds",
    "ratio",
]

Times = list[float]


class Refused(str):
    """Why onnxruntime does not load a model."""


def expand_with_onnx(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with ONNX's own expansion of SequenceMap in place."""
    inlined = onnx.inliner.inline_local_functions(model)
    typed = onnx.shape_inference.infer_shapes(inlined)
    selected = [("", "SequenceMap")]
    return onnx.inliner.inline_selected_functions(typed, selected, inline_schema_functions=True)


def measure(
    models: Mapping[str, onnx.ModelProto],
    feeds: Mapping[str, Any],
    rounds: int,
    seconds: float,
) -> dict[str, Times | Refused]:
    """Time the models in turns, after a warm-up that also checks that they agree.

    Args:
        models: Models with the same outputs, by label.
        feeds: Input name to array, or to a list of arrays for a sequence.
        rounds: How often each is run.
        seconds: What one model may take in all; one that would take longer is run less often,
            but never fewer than five times.

    Returns:
        By label: the seconds of every run, or why onnxruntime refuses the model.

    Raises:
        AssertionError: Two of the models disagree.
    """
    refused: dict[str, Refused] = {}
    times: dict[str, Times] = {}
    sessions: dict[str, onnxruntime.InferenceSession] = {}
    share: dict[str, int] = {}
    expected: dict[str, Any] | None = None
    for label, model in models.items():
        try:
            sessions[label] = open_session(model)
        except Exception as error:  # onnxruntime raises many types of its own
            refused[label] = Refused(str(error).splitlines()[0])
            continue
        times[label] = []
        names = [output.name for output in sessions[label].get_outputs()]
        outputs = dict(
            zip(names, sessions[label].run(None, own_feeds(sessions[label], feeds)), strict=True)
        )
        if expected is None:
            expected = outputs
        difference = compare(expected, outputs)
        assert difference.equal, f"{label}: {difference.message}"
        once = _once(sessions[label], feeds)
        share[label] = max(5, min(rounds, round(seconds / once)))
        if share[label] == rounds:
            for _ in range(3):
                _once(sessions[label], feeds)
    order, draw = list(sessions), random.Random(0)
    for turn in range(rounds):
        draw.shuffle(order)  # a long run slows down what comes next
        for label in order:
            session = sessions[label]
            if share[label] == rounds:
                _once(session, feeds)  # what ran before it leaves the caches to itself
            if turn < share[label]:
                times[label].append(_once(session, feeds))
    return {label: refused.get(label) or times[label] for label in models}


def ratio(slow: Times | Refused | None, fast: Times | Refused | None) -> float | None:
    """Return the median of the ratios turn by turn: a slow spell of the machine cancels."""
    if not isinstance(slow, list) or not isinstance(fast, list):
        return None
    return statistics.median(a / b for a, b in zip(slow, fast, strict=False))


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Open a model on one thread of the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def own_feeds(session: onnxruntime.InferenceSession, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model takes of the feeds of all: one by hand may be told the lengths."""
    return {one.name: feeds[one.name] for one in session.get_inputs()}


def _once(session: onnxruntime.InferenceSession, feeds: Mapping[str, Any]) -> float:
    own = own_feeds(session, feeds)
    started = time.perf_counter()
    session.run(None, own)
    return time.perf_counter() - started
