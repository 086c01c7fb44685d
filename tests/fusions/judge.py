"""Does onnxruntime, with its optimizations, get the rewritten model right?

The model as given says what is right, on onnxruntime without optimizations. Where that differs
ONNX's evaluator decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnxruntime

import rewriter
from rewriter.options import Strategy
from tests.fusions.models import Drawn, draw_model
from tests.programs.judge import stage

__all__ = ["MODES", "faults"]

MODES: dict[str, tuple[Strategy, bool]] = {
    "auto": ("auto", False),
    "fuse": ("fuse", False),
    "expand": ("expand", False),
    "tensors": ("auto", True),
}
"""The strategy, and whether sequences become tensors at the model's ends."""
_SAMPLES = (0, 1, 3, 5)
_LEVELS = onnxruntime.GraphOptimizationLevel


def faults(seed: int) -> list[str]:
    """Return what is wrong with the rewritten forms of a model; nothing if all is right."""
    drawn = draw_model(seed)
    stage("given")
    plain = _session(drawn.model, _LEVELS.ORT_DISABLE_ALL)
    assert isinstance(plain, onnxruntime.InferenceSession), plain
    fast = _session(drawn.model, _LEVELS.ORT_ENABLE_ALL)
    counts = [n for n in _SAMPLES if n or drawn.is_empty_safe]
    given = {n: (_run(plain, drawn, n), _run(fast, drawn, n)) for n in counts}
    found: list[str] = []
    for mode, (strategy, tensor_io) in MODES.items():
        stage("rewriting")
        after = rewriter.rewrite(drawn.model, strategy=strategy, tensor_io=tensor_io).model
        assert isinstance(after, onnx.ModelProto)
        stage(mode)
        found += [f"{seed} {mode}, {text}" for text in _differences(drawn, after, given)]
    return found


Outcome = list[np.ndarray] | str
"""The outputs, or the message of the error."""


def _differences(
    drawn: Drawn, after: onnx.ModelProto, given: Mapping[int, tuple[Outcome, Outcome]]
) -> Iterator[str]:
    session = _session(after, _LEVELS.ORT_ENABLE_ALL)
    for samples, (right, fast) in given.items():
        if isinstance(right, str) or _difference(right, fast):
            continue
        found = _run(session, drawn, samples)
        text = _difference(right, found)
        if text and _difference(_evaluated(drawn, samples), found):
            yield f"{samples} samples: {text}"


def _evaluated(drawn: Drawn, samples: int) -> list[np.ndarray]:
    """Return what ONNX's evaluator has: onnxruntime is wrong on some models as given."""
    found = rewriter.ReferenceEvaluator(drawn.model).run(None, drawn.feed(samples))
    return [np.asarray(value) for value in found]


def _session(
    model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel
) -> onnxruntime.InferenceSession | str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return f"refused: {error}"


def _run(session: onnxruntime.InferenceSession | str, drawn: Drawn, samples: int) -> Outcome:
    if isinstance(session, str):
        return session
    try:
        return [np.asarray(value) for value in session.run(None, drawn.feed(samples))]
    except Exception as error:
        return str(error)


def _difference(right: list[np.ndarray], found: Outcome) -> str:
    if isinstance(found, str):
        return found
    for one, other in zip(right, found, strict=True):
        if one.shape != other.shape:
            return f"shape {other.shape} for {one.shape}"
        tolerance = 5e-2 if one.dtype == np.float16 else 2e-3
        is_close = np.isclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        if one.dtype == np.float16:
            is_close |= ~np.isfinite(one) | ~np.isfinite(other)  # what one order takes too far
        if not is_close.all():
            return f"off by {np.abs(one - other).max()}"
    return ""
