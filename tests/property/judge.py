"""Is a rewritten program right? The body run alone for each sample says."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from passes.decisions import Decision
from passes.expand import ExpandSequenceMapPass
from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.model_files.checking import check
from rewriter.pipeline import rewrite
from rewriter.proof.compare import TOLERANCES, compare_values
from tests.property.bodies import Body, names_read
from tests.property.models import feeds_of, model_of
from tests.property.pool import Array
from tests.property.programs import Feed, Program, Result, draw_program
from tests.property.rounding import settled_outputs

__all__ = ["STRATEGIES", "Engine", "Outcome", "judge", "judge_passes", "program_for"]

STRATEGIES = ("expand", "plain", "fuse", "auto", "promised", "exact")
"""Those of the rewrite, and: ``plain``, the loop of the specification; ``promised``, fuse with all
promises that hold; ``exact``, fuse with that option, for programs that are rough."""
NO_KERNEL = (
    "Could not find an implementation for SplitToSequence(",
    "FuseReluClip::Apply",
)
"""What onnxruntime refuses: it cuts tensors of few element types, and its fusion of Relu with
Clip knows no doubles."""
LOOPS = ("Loop", "Scan", "SequenceMap")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program under one strategy.

    Attributes:
        seed: Seed of the program.
        strategy: The strategy.
        verdict: ``right``, ``wrong`` (another result), ``failing`` (none, where there is one) or
            ``refused`` (right on the evaluator, but onnxruntime does not load it), or ``no
            kernel`` (nor would it load the program itself).
        detail: What differs, or the error.
        form: ``loop-free``, ``partly`` (fused in part or under a guard) or ``loop``.
        raggedness: How its samples differ in shape.
    """

    seed: int
    strategy: str
    verdict: str
    detail: str = ""
    form: str = ""
    raggedness: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.verdict in ("right", "no kernel")


def program_for(seed: int, strategy: str) -> Program:
    """Draw the program of a seed that a strategy is tried on."""
    return draw_program(seed, rough=strategy == "exact")


def judge(program: Program, strategy: str) -> Outcome:
    """Rewrite a program and compare it on each of its feeds."""
    model = model_of(program)
    try:
        after, decisions = _rewritten(model, program, strategy)
    except Exception as error:
        return Outcome(program.seed, strategy, "failing", f"rewrite: {_line(error)}")
    form = _form(model, after, [str(d.verdict) for d in decisions])
    engine = Engine(after, optimised=not program.rough)
    if any(text in engine.refused for text in NO_KERNEL):
        return Outcome(program.seed, strategy, "no kernel", engine.refused, form)
    settled = settled_outputs(program) if program.rough else None
    for feed in program.feeds:
        verdict, detail = _judge_feed(program, engine, feed, settled)
        if verdict != "right" and not _fails_as_given(program, model, feed, settled):
            where = f"samples {list(feed.samples)}: {detail}"
            return Outcome(program.seed, strategy, verdict, where, form)
    verdict = "refused" if engine.refused else "right"
    return Outcome(program.seed, strategy, verdict, engine.refused, form)


def judge_passes(program: Program, strategy: Any) -> Iterator[str]:
    """Yield which pass of a rewrite leaves a model that is not valid, or computes otherwise.

    The evaluator runs the model behind each pass that changed it, on the feeds on which it runs
    the program as given.
    """
    given = Engine.of_evaluator(model_of(program))
    feeds = [f for f in program.feeds if _judge_feed(program, given, f, None)[0] == "right"]
    models: list[tuple[str, onnx.ModelProto]] = []

    def note(name: str, model: ir.Model) -> None:
        proto = ir.to_proto(model)
        if not models or proto != models[-1][1]:
            models.append((name, proto))

    rewrite(model_of(program), strategy=strategy, on_pass=note, **program.options)
    for name, proto in models:
        check(proto)
        engine = Engine.of_evaluator(proto)
        for feed in feeds:
            verdict, detail = _judge_feed(program, engine, feed, None)
            if verdict != "right":
                yield f"{program.seed} {strategy} {name}: {verdict}: {detail}"


def _fails_as_given(
    program: Program, model: onnx.ModelProto, feed: Feed, settled: frozenset[str] | None
) -> bool:
    """Whether onnxruntime gets the program wrong, or fails on it, before it is rewritten.

    It loads few maps; their plain expansion is what it makes of those.
    """
    plain = _rewritten(model, program, "plain")[0]
    engine = Engine(plain, optimised=not program.rough)
    return not engine.refused and _judge_feed(program, engine, feed, settled)[0] != "right"


def _rewritten(
    model: onnx.ModelProto, program: Program, strategy: str
) -> tuple[onnx.ModelProto, Sequence[Decision]]:
    if strategy == "plain":
        taken, plain = ir.from_proto(model), ExpandSequenceMapPass("plain")
        plain(taken)
        after = ir.to_proto(taken)
        check(after)
        return after, plain.decisions
    name: Any = strategy
    options: dict[str, Any] = dict(program.options)
    if strategy == "promised":
        # Numbers that a program declares are true.
        name, options = "fuse", {**program.promises(), "trust_types": True}
    elif strategy == "exact":
        name, options = "fuse", {**options, "exact": True}
    done = rewrite(model, strategy=name, **options)
    assert isinstance(done.model, onnx.ModelProto)
    return done.model, done.report.decisions


def _judge_feed(
    program: Program, engine: Engine, feed: Feed, settled: frozenset[str] | None
) -> tuple[str, str]:
    """Compare the results of one feed; ``settled``: the outputs that must be the same bits."""
    rows = program.body.rows
    defined = bool(feed.samples) or not any(
        r.kind in ("stack", "concat", "at") for r in program.results
    )
    try:
        found = engine.run(feeds_of(program, feed))
    except Exception as error:
        # A ConcatFromSequence of nothing is an error in the program too.
        is_open = not behind_no_iterations(program.body).isdisjoint(program.body.outputs)
        return ("failing", _line(error)) if defined and not is_open else ("right", "")
    scale = max((_largest(a) for row in rows for a in row), default=0.0)
    for index, (result, actual) in enumerate(zip(program.results, found, strict=True)):
        output = program.body.outputs.index(result.output)
        samples = [rows[i][output] for i in feed.samples]
        like = rows[0][output]
        tolerance = _tolerance(program, like, scale) if settled is None else (0.0, 0.0)
        if settled is not None and result.output not in settled and result.kind != "length":
            samples, actual = _blank(samples), _blank(actual)
        detail = _difference(result, samples, actual, like, tolerance)
        if detail and not (_has_loops(program) and _forgets(result, samples, actual, tolerance)):
            if result.output in behind_no_iterations(program.body):
                continue
            return "wrong", f"result {index} ({result.kind}): {detail}"
    return "right", ""


def _largest(array: Array) -> float:
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0))


def _blank(value: Any) -> Any:
    """Return zeros of the same shape."""
    return [_blank(v) for v in value] if isinstance(value, list) else np.zeros_like(value)


def _tolerance(program: Program, like: Array, scale: float) -> tuple[float, float]:
    name = like.dtype.name
    if like.dtype.kind == "f":
        coarse = (kind for kind in (np.float16, np.float32) if _computes(program, kind))
        name = min((like.dtype, *map(np.dtype, coarse)), key=lambda kind: kind.itemsize).name
    rtol, atol = TOLERANCES.get(name, (0.0, 0.0))
    return rtol, atol * max(1.0, scale)


def _computes(program: Program, dtype: type[np.floating[Any]]) -> bool:
    """Whether a program computes with numbers of a type: its results are no more exact.

    onnxruntime computes halves in float, and rounds in between only where it must: where nodes
    of a body come to stand side by side, a result that is cast to float gets more exact.
    """
    body = program.body
    values = (*body.mapped, *body.shared, *body.captured)
    held = [value.dtype for value in values] + [
        array.dtype for _, array in body.constants.values()
    ]
    attributes = [a for node in _nodes(body.nodes) for a in node.attribute]
    numbers = [a.i for a in attributes if a.name == "to"]
    numbers += [a.t.data_type for a in attributes if a.HasField("t")]
    return dtype in held or onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) in numbers


def _difference(
    result: Result,
    samples: list[Array],
    actual: Any,
    like: Array,
    tolerance: tuple[float, float],
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
    return compare_values(want, actual, "it", *tolerance).message


def behind_no_iterations(body: Body) -> set[str]:
    """Return the values that are computed from what a Loop of no iterations yields.

    Each dimension that nothing tells is 0 then: ONNX says nothing of it. A rewrite may know the
    true one, of which nodes behind the Loop compute something else, or fail.
    """
    unsettled: set[str] = set()
    found: set[str] = set()
    for node in body.nodes:
        if (unsettled | found) & names_read(node):
            found.update(node.output)
        if node.op_type == "Loop":
            unsettled |= {name for name in node.output if _has_no_rows(body, name)}
    return found


def _has_no_rows(body: Body, name: str) -> bool:
    """Whether some sample has a value of no rows, whose other dimensions may be forgotten."""
    if not name:
        return False
    shapes = [np.shape(row[0]) for row in body.results([name])]
    return any(shape[:1] == (0,) and 0 in shape[1:] for shape in shapes)


def _has_loops(program: Program) -> bool:
    return any(node.op_type in LOOPS for node in _nodes(program.body.nodes))


def _forgets(
    result: Result, samples: list[Array], actual: Any, tolerance: tuple[float, float]
) -> bool:
    """Whether results differ at most in dimensions, of no elements, that are forgotten and are 0.

    A Loop of no trips yields 0 for each dimension that nothing tells, and a rewrite may tell
    more or less than the program.
    """
    if result.kind == "stack":
        samples = [np.stack(samples, result.axis)] if samples else []
    if result.kind == "at" and samples:
        samples = [samples[result.axis]]
    if result.kind == "concat" and samples:
        joined = _joined_as(samples, result.axis % samples[0].ndim, actual)
        if joined is None:
            return False
        samples = [joined]
    if not samples:
        return False
    found = actual if isinstance(actual, list) else [actual]
    return len(found) == len(samples) and all(
        _is_forgotten(want, have) or not compare_values(want, have, "it", *tolerance).message
        for want, have in zip(samples, found, strict=True)
    )


def _joined_as(samples: list[Array], axis: int, actual: Array) -> Array | None:
    """Return samples joined, as long as a result where that may be; None if it may not.

    A sample of no iterations has no rows, which is known. Its other dimensions may be forgotten:
    along one of these, what is joined of true ones is longer than what is joined of zeros.
    """
    joined = np.concatenate(samples, axis)
    if joined.ndim != actual.ndim:
        return None
    more = actual.shape[axis] - joined.shape[axis]
    is_forgotten = axis and joined.size == 0 and any(s.shape[axis] == 0 for s in samples)
    if more and not (is_forgotten and more > 0):
        return None
    shape = [*joined.shape]
    shape[axis] += more
    return np.empty(shape, joined.dtype) if more else joined


def _is_forgotten(want: Array, have: Array) -> bool:
    return (
        want.size == 0 == have.size
        and want.ndim == have.ndim
        and all(h == w or 0 in (h, w) for w, h in zip(want.shape, have.shape, strict=True))
    )


class Engine:
    """Runs a rewritten model on onnxruntime, or on the evaluator where that refuses it."""

    def __init__(self, model: onnx.ModelProto, *, optimised: bool = True) -> None:
        self.refused = ""
        self._model = model
        self._session: Any = None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no common base
            self.refused = _line(error)

    @classmethod
    def of_evaluator(cls, model: onnx.ModelProto) -> Engine:
        """Return what runs a model on the evaluator alone."""
        engine = cls(onnx.ModelProto())
        engine._model = model
        return engine

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
    return Counter(n.op_type for n in _nodes(graph.node) if n.op_type in LOOPS)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node)
