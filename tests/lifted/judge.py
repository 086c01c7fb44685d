"""What a lifted map must compute, what it computes, and how the two are compared."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from rewriter.evaluator.reference import ReferenceEvaluator
from rewriter.target_table import TARGETS
from tests.lifted.cases import ONNXRUNTIME_DEFECTS, Official, nodes_of

__all__ = ["Engine", "difference", "engine_for", "loop_free", "on_reference", "single_engine"]

# By element type: relative and absolute tolerance. Everything else is compared exactly.
_TOLERANCES = {
    "float16": (1e-2, 1e-2),
    "float32": (1e-4, 1e-5),
    "float64": (1e-7, 1e-9),
    "complex64": (1e-4, 1e-5),
    "complex128": (1e-7, 1e-9),
}
_LOOPS = ("Loop", "Scan", "SequenceMap")
_HIGHEST_OPSET = TARGETS["onnxruntime"].highest_opset or 0


@dataclasses.dataclass(frozen=True)
class Engine:
    """A loaded model.

    Attributes:
        name: ``onnxruntime`` or ``reference``.
        run: Runs it with feeds by name; a sequence output is a list of arrays.
        refusal: Why onnxruntime did not load it, empty where it did.
    """

    name: str
    run: Callable[[Mapping[str, Any]], list[Any]]
    refusal: str = ""


def engine_for(model: onnx.ModelProto, single: str) -> Engine:
    """Load a rewritten model on onnxruntime where that accepts it, otherwise on the evaluator.

    Where the single model runs on the evaluator only, so does the rewritten one: onnxruntime
    loads some operators that it cannot run.
    """
    if single == "reference":
        return on_reference(model)
    try:
        return _on_onnxruntime(model)
    except Exception as error:  # onnxruntime's errors have no common base
        return on_reference(model, refusal=str(error))


def single_engine(official: Official) -> Engine | None:
    """Load the single model where it also runs; None where no engine runs it.

    A test that was converted to a newer opset must still compute its official outputs. One whose
    opset is above that of the target runs on the evaluator: onnxruntime 1.31 refuses it, and 1.32
    computes what is new in it only where it knows shapes, which a rewritten model may hide.
    """
    skips = official.name in ONNXRUNTIME_DEFECTS or _opset(official.model) > _HIGHEST_OPSET
    for load in (on_reference,) if skips else (_on_onnxruntime, on_reference):
        try:
            engine = load(official.model)
            outputs = engine.run(official.inputs)
        except Exception:  # whatever stops this engine, the other may be able to do
            continue
        if not official.converted or not difference(official.outputs, outputs):
            return engine
    return None


def _opset(model: onnx.ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain == "")


def _on_onnxruntime(model: onnx.ModelProto) -> Engine:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return Engine("onnxruntime", lambda feeds: list(session.run(None, dict(feeds))))


def on_reference(model: onnx.ModelProto, refusal: str = "") -> Engine:
    """Load a model on the reference evaluator."""
    evaluator = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, e.g. of a remainder by zero
            return list(evaluator.run(None, dict(feeds)))

    return Engine("reference", run, refusal)


def difference(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """Say where two lists of outputs differ in length, element type, shape or value.

    Returns:
        One line, empty where they are equal: floats within the tolerance of their type, NaN equal
        to NaN.
    """
    if len(expected) != len(actual):
        return f"{len(actual)} outputs or elements instead of {len(expected)}"
    for i, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(want, list):
            found = difference(want, got) if isinstance(got, list) else "no sequence"
        else:
            found = _array_difference(np.asarray(want), np.asarray(got))
        if found:
            return f"[{i}] {found}"
    return ""


def _array_difference(want: np.ndarray, got: np.ndarray) -> str:
    # onnxruntime gives strings as objects, the evaluator also as str_
    if (want.dtype.kind in "OU") != (got.dtype.kind in "OU") or (
        want.dtype.kind not in "OU" and want.dtype != got.dtype
    ):
        return f"type {got.dtype} instead of {want.dtype}"
    if want.shape != got.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if want.dtype.kind not in "fc":
        return "" if np.array_equal(want, got) else _first_difference(want, got, want != got)
    rtol, atol = _TOLERANCES[want.dtype.name]
    near = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    return "" if near.all() else _first_difference(want, got, ~near)


def _first_difference(want: np.ndarray, got: np.ndarray, where: np.ndarray) -> str:
    place = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(where)))
    pair = np.atleast_1d(got)[place], np.atleast_1d(want)[place]
    return f"value {pair[0]!r} instead of {pair[1]!r} at {place}"


def loop_free(official: Official, rewritten: onnx.ModelProto) -> bool:
    """Whether no Loop, Scan or SequenceMap is left but those that the body had."""
    had = _loops(nodes_of(official.model.graph))
    left = _loops(nodes_of(rewritten.graph))
    for function in rewritten.functions:
        left += _loops(node for top in function.node for node in _with_bodies(top))
    return left <= had


def _with_bodies(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    return nodes_of(onnx.GraphProto(node=[node]))


def _loops(nodes: Iterator[onnx.NodeProto]) -> Counter[str]:
    return Counter(node.op_type for node in nodes if node.op_type in _LOOPS)
