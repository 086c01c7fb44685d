"""Is a rewritten program right? An interpreter of its own says, and two engines run the result."""

from __future__ import annotations

import collections
import dataclasses
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import inliner

import rewriter
from tests.programs.interpreter import Ambiguous, Failure, Unsettled, run_model
from tests.programs.nodes_alone import nodes_alone
from tests.programs.programs import Program

__all__ = ["MODES", "Outcome", "judge", "mode_of"]

MODES: dict[str, dict[str, Any]] = {
    "auto": {"strategy": "auto"},
    "fuse": {"strategy": "fuse"},
    "expand": {"strategy": "expand"},
    "promised": {"strategy": "fuse", "trust_types": True, "uniform": ()},
    "exact": {"strategy": "fuse", "exact": True},
    "tensors": {"strategy": "fuse", "tensor_io": True},
    "promised tensors": {"strategy": "auto", "tensor_io": True, "uniform": ()},
    "openvino": {"strategy": "auto", "target": "openvino", "tensor_io": True},
    "tensorrt": {"strategy": "auto", "target": "tensorrt", "tensor_io": True, "uniform": ()},
    "portable": {"strategy": "auto", "target": "portable", "tensor_io": True, "uniform": ()},
}
"""Options of the rewrite by name; ``uniform`` stands for all sequences for which it is true."""
RANDOM = ("auto", "auto", "auto", "fuse", "fuse", "fuse", "expand", "expand", *MODES)
TOLERANCES = {"float16": (2e-2, 4e-3), "float32": (5e-4, 2e-5), "float64": (1e-7, 1e-9)}
STAGES: list[bool] = []
"""Not empty in a process that may be killed."""
BAD = ("wrong", "failing", "refused", "crash", "unequal again")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes:
        seed: Its seed.
        mode: How it was rewritten, one of `MODES`.
        verdict: ``right``; ``wrong``: another value than the interpreter says; ``failing``: no
            value where the model as given has one; ``refused``: onnxruntime does not load it,
            but loads the model as given; ``crash``: the rewrite raises; ``unreached``: the target
            is not reached; ``unequal again``: a second rewrite makes it wrong; ``only after``: a
            value where the interpreter, and the model as given on onnxruntime, has an error;
            ``disputed``: onnxruntime on the model as given differs from the interpreter;
            ``given fails``: onnxruntime cannot run the model as given, and the new one neither;
            ``killed``: the process ended.
        detail: What differs, or the error.
        features: What occurs in the program.
        notes: What else was seen: ``changed again``, ``proved`` for each feed that counts.
    """

    seed: int
    mode: str
    verdict: str
    detail: str = ""
    features: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        if self.verdict == "killed":
            return "the model as given runs" in self.detail
        return self.verdict not in BAD


def mode_of(seed: int) -> str:
    """Return the mode in which a seed is tried where none is asked for."""
    return RANDOM[int(np.random.default_rng((seed, 77)).integers(len(RANDOM)))]


def judge(program: Program, mode: str) -> Outcome:
    """Rewrite a program and compare it on each of its feeds."""
    notes: list[str] = []
    options = dict(MODES[mode])
    if "uniform" in options:
        options["uniform"] = program.uniform

    def outcome(verdict: str, detail: str = "") -> Outcome:
        return Outcome(program.seed, mode, verdict, detail, tuple(program.features), tuple(notes))

    try:
        stage("rewriting")
        after = rewriter.optimize(program.model, **options)
    except rewriter.TargetError as error:
        return outcome("unreached", _line(error))
    except Exception as error:
        return outcome("crash", _line(error))
    assert isinstance(after, onnx.ModelProto)
    stage("the model as given runs")
    given = _Given(program.model)
    verdict, detail = _judge(program, after, given, notes)
    if verdict not in ("right", "only after", "given fails"):
        return outcome(verdict, detail)
    if program.seed % 3 == 0:
        try:
            again = rewriter.optimize(after, **{**options, "uniform": (), "tensor_io": False})
        except Exception as error:
            return outcome("unequal again", f"rewrite: {_line(error)}")
        if again != after:
            notes.append("changed again")
            second, why = _judge(program, again, given, [])
            if second in ("wrong", "failing", "refused"):
                return outcome("unequal again", f"{second}: {why}")
    if program.seed % 10 == 1:
        loaded = _saved(after)
        if loaded.graph != after.graph:
            second, why = _judge(program, loaded, given, [])
            if second in ("wrong", "failing", "refused"):
                return outcome("unequal again", f"after save and load, {second}: {why}")
    return outcome(verdict, detail)


def _saved(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        rewriter.save(model, path)
        return onnx.load(path)


def stage(what: str) -> None:
    """Say what comes next: the last one said is what kills a process."""
    if STAGES:
        print(what, file=sys.stderr, flush=True)


def _judge(
    program: Program, after: onnx.ModelProto, given: _Given, notes: list[str]
) -> tuple[str, str]:
    """Return the worst verdict over all feeds."""
    stage("the new model loads")
    session, refusal = _session(after)
    reference = _reference(after)
    if refusal and not given.refusal:
        return "refused", refusal
    wanted = [_expected(program, feed) for feed in program.feeds]
    pairs = list(zip(program.feeds, wanted, strict=True))
    said = [_judge_on_evaluator(after, given, reference, *pair) for pair in pairs]
    found = [(verdict, f"feed {n}: {detail}") for n, (verdict, detail) in enumerate(said)]
    if not any(verdict in BAD for verdict, _ in found):
        # Only now, because a runtime may end the process.
        said = [_judge_on_runtime(after, given, session, *pair) for pair in pairs]
        found = [(verdict, f"feed {n}: {detail}") for n, (verdict, detail) in enumerate(said)]
        notes.extend("proved" for verdict, _ in found if verdict == "right")
    order = ["wrong", "failing", "disputed", "only after", "given fails", "right"]
    return min(found, key=lambda f: order.index(f[0]))


_Expected = tuple[Any, float]
"""What the interpreter says: values by name or what it raises; the largest number on the way."""


def _expected(program: Program, feed: Mapping[str, Any]) -> _Expected:
    try:
        return run_model(program.model, feed)
    except (Failure, Ambiguous) as error:
        return error, 1.0


def _judge_on_evaluator(
    after: onnx.ModelProto,
    given: _Given,
    reference: Any,
    feed: Mapping[str, Any],
    wanted: _Expected,
) -> tuple[str, str]:
    expected, largest = wanted
    if isinstance(expected, Exception):
        return "right", ""
    try:
        found = _run(reference, after, feed)
    except Ambiguous:
        return "right", "not settled"
    detail = _difference(expected, found, largest)
    if not detail or given.is_unknown_to_reference(feed, expected, largest):
        return "right", ""
    return "failing" if isinstance(found, Exception) else "wrong", f"on the evaluator: {detail}"


def _judge_on_runtime(
    after: onnx.ModelProto,
    given: _Given,
    session: Any,
    feed: Mapping[str, Any],
    wanted: _Expected,
) -> tuple[str, str]:
    expected, largest = wanted
    if isinstance(expected, Ambiguous):
        return "right", "not settled"
    stage("the model as given runs")
    own = given.run(feed)
    if isinstance(expected, Failure) and not isinstance(own, Exception):
        return "right", "onnxruntime knows no error here"
    stage("the new model runs")
    try:
        actual = _run(session, after, feed)
    except Ambiguous:
        return "right", "not settled"
    if isinstance(expected, Failure):
        return ("right", "") if isinstance(actual, Exception) else ("only after", str(expected))
    detail = _difference(expected, actual, largest)
    if not detail:
        return "right", ""
    dispute = _difference(expected, own, largest)
    if dispute:
        is_error = isinstance(own, Exception)
        return ("given fails" if is_error else "disputed"), f"{dispute} | after: {detail}"
    return ("failing" if isinstance(actual, Exception) else "wrong"), f"on onnxruntime: {detail}"


class _Given:
    """The model as given, on the engines, opened when it is needed."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._session, self.refusal = _session(model)
        if self._session is None:
            try:
                plain = inliner.inline_selected_functions(
                    model, [("", "SequenceMap")], inline_schema_functions=True
                )
                self._session, self.refusal = _session(plain)
            except Exception as error:
                self.refusal = _line(error)
        self._is_unknown: bool | None = None

    def run(self, feed: Mapping[str, Any]) -> Any:
        """Return the outputs by name, or the error.

        A model that onnxruntime does not load is an error, but its nodes run one by one: what
        ends the process is then a node as its author wrote it.
        """
        if self._session is None:
            for model, values in nodes_alone(self._model, feed):
                _run(_session(model)[0], model, values)
        return _run(self._session, self._model, feed)

    def is_unknown_to_reference(self, feed: Mapping[str, Any], expected: Any, big: float) -> bool:
        """Whether the evaluator gets the model as given wrong as well."""
        found = _run(_reference(self._model), self._model, feed)
        return bool(_difference(expected, found, big))


def _session(model: onnx.ModelProto) -> tuple[Any, str]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return None, _line(error)
    return session, ""


def _reference(model: onnx.ModelProto) -> Any:
    try:
        return rewriter.ReferenceEvaluator(model)
    except Exception as error:
        return error


def _run(session: Any, model: onnx.ModelProto, feed: Mapping[str, Any]) -> Any:
    """Return the outputs by name, or the error."""
    if session is None or isinstance(session, Exception):
        return session or RuntimeError("not loaded")
    record = json.loads(
        next((p.value for p in model.metadata_props if p.key == "seqmap.tensor_io"), "{}")
    )
    try:
        found = session.run(None, _as_tensors(feed, record.get("inputs", {}), model))
    except Ambiguous:
        raise
    except Exception as error:
        return error
    names = [v.name for v in model.graph.output]
    return _as_lists(dict(zip(names, found, strict=True)), record.get("outputs", {}))


def _as_tensors(
    feed: Mapping[str, Any], record: Mapping[str, Any], model: onnx.ModelProto
) -> dict[str, Any]:
    """Return what a model takes that passes sequences as tensors, as its metadata says."""
    found = dict(feed)
    for name, one in record.items():
        items = feed[name]
        first, behind = _axes_that_differ(one)
        if items:
            parts = [_with_one_axis(item, behind) if behind else item for item in items]
            tensor = np.concatenate(parts) if behind else np.stack(parts)
        else:
            info = next(v for v in model.graph.input if v.name == name)
            kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            dims = one["dims"] if one["dims"] is None else one["dims"][behind:]
            if dims is None or not all(isinstance(d, int) for d in dims):
                raise Ambiguous  # nothing says which tensor of no rows stands for the list
            tensor = np.empty((0, *dims), kind)
        found[name] = tensor
        sizes = np.array([item.shape[first:behind] for item in items], np.int64)
        if one["form"] == "packed":
            found[one["lengths"]] = sizes.reshape(len(items))
        elif one["form"] == "flat":
            found[one["sizes"]] = sizes.reshape(len(items), behind - first)
    return found


def _with_one_axis(item: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return an array whose first axes are one."""
    size = int(np.prod(item.shape[:count]))
    return item.reshape(size, *item.shape[count:])


def _axes_that_differ(one: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first axis along which the elements may differ, and the one behind the last."""
    if one["form"] == "stacked":
        return 0, 0
    if one["form"] == "packed":
        return 0, 1
    unknown = [axis for axis, dim in enumerate(one["dims"]) if not isinstance(dim, int)]
    return unknown[0], unknown[-1] + 1


def _as_lists(values: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    for name, one in record.items():
        tensor = values[name]
        if one["form"] == "packed":
            ends = np.cumsum(values.pop(one["lengths"]))
            values[name] = np.split(tensor, ends[:-1]) if len(ends) else []
        elif one["form"] == "flat":
            values[name] = _flat_elements(tensor, values.pop(one["sizes"]), one)
        else:
            values[name] = [np.asarray(part) for part in tensor]
    return values


def _flat_elements(
    rows: np.ndarray, sizes: np.ndarray, one: Mapping[str, Any]
) -> list[np.ndarray]:
    first, behind = _axes_that_differ(one)
    found, start = [], 0
    for size in sizes.tolist():
        shape = (*one["dims"][:first], *size, *rows.shape[1:])
        end = start + int(np.prod(shape[:behind], dtype=np.int64))
        found.append(rows[start:end].reshape(shape))
        start = end
    assert start == len(rows)
    return found


def _difference(expected: Mapping[str, Any], actual: Any, largest: float) -> str:
    """Return what differs, empty if nothing does."""
    if isinstance(actual, Exception):
        return _line(actual)
    if list(expected) != list(actual):
        return f"outputs {list(actual)}"
    for name, value in expected.items():
        detail = _compare(value, actual[name], largest)
        if detail:
            return f"{name}: {detail}"
    return ""


def _compare(expected: Any, actual: Any, largest: float) -> str:
    if isinstance(expected, Unsettled):
        if isinstance(actual, np.ndarray) and actual.size == 0:
            return ""
        return f"{_text(actual)} of no iterations"
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"{_text(actual)}, not a sequence of {len(expected)}"
        pairs = zip(expected, actual, strict=True)
        details = (
            f"[{i}] {d}" for i, (e, a) in enumerate(pairs) if (d := _compare(e, a, largest))
        )
        return next(details, "")
    if not isinstance(actual, np.ndarray | np.generic):
        return f"{_text(actual)}, not a tensor"
    actual = np.asarray(actual)
    is_text = expected.dtype.kind in "OUS" and actual.dtype.kind in "OUST"
    if (expected.dtype != actual.dtype and not is_text) or expected.shape != actual.shape:
        return f"{actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}"
    if expected.dtype.kind != "f":
        same = np.array_equal(expected, actual)
    else:
        rtol, atol = TOLERANCES[expected.dtype.name]
        one, other = expected.astype(np.float64), actual.astype(np.float64)
        scale = min(max(largest, 1.0), 1e6)
        same = np.allclose(one, other, rtol, atol * scale, equal_nan=True)
    return "" if same else f"{_text(actual)}, not {_text(expected)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return " ".join(str(value).split())[:120] + f" {np.shape(value)}"


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if not isinstance(error, rewriter.RewriteError) and error.__traceback__ is not None:
        import traceback

        place = traceback.extract_tb(error.__traceback__)[-1]
        if "onnxruntime" not in place.filename:
            text += f" ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
    return f"{type(error).__name__}: {text[:500]}"


def tally(outcomes: Sequence[Outcome]) -> collections.Counter[str]:
    """Count verdicts."""
    return collections.Counter(o.verdict for o in outcomes)
