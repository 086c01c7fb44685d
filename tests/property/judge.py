"""Is a rewritten program right? The body run alone for each sample says."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from rewriter.compare import TOLERANCES, compare_values
from rewriter.pipeline import rewrite
from rewriter.reference import ReferenceEvaluator
from tests.property.models import feeds_of, model_of
from tests.property.pool import Array
from tests.property.programs import Feed, Program, Result

__all__ = ["STRATEGIES", "Outcome", "judge"]

STRATEGIES = ("expand", "fuse", "auto")
LOOPS = ("Loop", "Scan", "SequenceMap")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program under one strategy.

    Attributes:
        seed: Seed of the program.
        strategy: The strategy.
        verdict: ``right``, ``wrong`` (another result) or ``failing`` (none, where there is one).
        detail: What differs, or the error.
        form: ``loop-free``, ``partly`` (fused in part or under a guard) or ``loop``.
        refused: Why onnxruntime did not run it, so that the evaluator judged alone.
    """

    seed: int
    strategy: str
    verdict: str
    detail: str = ""
    form: str = ""
    refused: str = ""

    @property
    def is_right(self) -> bool:
        return self.verdict == "right"


def judge(program: Program, strategy: str) -> Outcome:
    """Rewrite a program and compare it on each of its feeds."""
    model = model_of(program)
    try:
        done = rewrite(model, strategy=strategy, **program.options)  # type: ignore[arg-type]
    except Exception as error:
        return Outcome(program.seed, strategy, "failing", f"rewrite: {_line(error)}")
    assert isinstance(done.model, onnx.ModelProto)
    form = _form(model, done.model, [str(d.verdict) for d in done.report.decisions])
    engine = _Engine(done.model)
    rows = program.body.results()
    for feed in program.feeds:
        verdict, detail = _judge_feed(program, engine, rows, feed)
        if verdict != "right":
            where = f"samples {list(feed.samples)}: {detail}"
            return Outcome(program.seed, strategy, verdict, where, form, engine.refused)
    return Outcome(program.seed, strategy, "right", "", form, engine.refused)


def _judge_feed(
    program: Program, engine: _Engine, rows: Sequence[Sequence[Array]], feed: Feed
) -> tuple[str, str]:
    defined = bool(feed.samples) or not any(
        r.kind in ("stack", "concat", "at") for r in program.results
    )
    try:
        found = engine.run(feeds_of(program, feed))
    except Exception as error:
        # A ConcatFromSequence of nothing is an error in the program too.
        return ("failing", _line(error)) if defined else ("right", "")
    scale = max((_largest(a) for row in rows for a in row), default=0.0)
    for index, (result, actual) in enumerate(zip(program.results, found, strict=True)):
        output = program.body.outputs.index(result.output)
        samples = [rows[i][output] for i in feed.samples]
        detail = _difference(result, samples, actual, rows[0][output], scale)
        if detail:
            return "wrong", f"result {index} ({result.kind}): {detail}"
    return "right", ""


def _largest(array: Array) -> float:
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0))


def _difference(
    result: Result, samples: list[Array], actual: Any, like: Array, scale: float
) -> str:
    if not samples and result.kind in ("stack", "concat"):
        rank = like.ndim + (result.kind == "stack")
        fits = actual.ndim == rank and actual.shape[result.axis] == 0
        return "" if fits else f"shape {actual.shape} of no samples of rank {like.ndim}"
    if not samples and result.kind == "at":
        return ""
    want: Any = samples
    if result.kind == "stack":
        want = np.stack(samples, result.axis)
    elif result.kind == "concat":
        want = np.concatenate(samples, result.axis)
    elif result.kind == "at":
        want = samples[result.axis]
    elif result.kind == "length":
        want = np.array(len(samples), np.int64)
    rtol, atol = TOLERANCES.get(like.dtype.name, (0.0, 0.0))
    return compare_values(want, actual, "it", rtol, atol * max(1.0, scale)).message


class _Engine:
    """Runs a rewritten model on onnxruntime, or on the evaluator where that refuses it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.refused = ""
        self._model = model
        self._session: Any = None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no common base
            self.refused = _line(error)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        if self._session is None:
            return list(ReferenceEvaluator(self._model).run(None, dict(feeds)))
        return list(self._session.run(None, dict(feeds)))


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if not text and error.__traceback__ is not None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno} {place.line}"
    return f"{type(error).__name__}: {text[:400]}"


def _form(before: onnx.ModelProto, after: onnx.ModelProto, verdicts: Sequence[str]) -> str:
    bodies = [a.g for n in before.graph.node if n.op_type == "SequenceMap" for a in n.attribute]
    had = Counter[str]()
    for body in bodies:
        had += _loops(body)
    if _loops(after.graph) <= had:
        return "loop-free"
    return "partly" if {"fused", "guarded", "fissioned"} & set(verdicts) else "loop"


def _loops(graph: onnx.GraphProto) -> Counter[str]:
    return Counter(n.op_type for n in _nodes(graph) if n.op_type in LOOPS)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
