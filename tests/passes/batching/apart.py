"""Proves that samples stay apart: an index out of range in one of them reads no neighbour."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from rewriter.evaluator.reference import ReferenceEvaluator
from tests.passes.batching.harness import Array, Operand
from tests.passes.batching.ragged import (
    RaggedCase,
    alone,
    feeds_of,
    fused,
    joined,
    loops_of,
    sample_of,
    wanted,
)

__all__ = ["ENGINES", "Misplaced", "prove_apart"]

BAD = 1
"""The sample of which an index is out of range: it has a neighbour on either side."""

MARKER = 12345


Engine = Callable[[onnx.ModelProto, Mapping[str, Array]], list[Array]]


def _on_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return list(session.run(None, dict(feeds)))


def _on_evaluator(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(x) for x in ReferenceEvaluator(proto).run(None, dict(feeds))]


ENGINES: dict[str, Engine] = {"onnxruntime": _on_onnxruntime, "evaluator": _on_evaluator}


@dataclasses.dataclass(frozen=True)
class Misplaced:
    """A body that reads or writes at places that an operand tells.

    Attributes:
        op_type: The operator.
        name: The input of the operator that tells the places, by ONNX's name for it.
        case: The body, with places in range.
        bad: What is out of range: a number takes the place of the last one of the operand, an
            array that of all.
        index: The operand of the body that holds the places.
        engines: What runs it rightly.
        far: Whether onnxruntime reads numbers that are far out of range as the specification has
            them.
    """

    op_type: str
    name: str
    case: RaggedCase
    bad: Sequence[Any]
    index: str = "i"
    engines: Collection[str] = tuple(ENGINES)
    far: bool = True

    def __str__(self) -> str:
        """Return the id of the test."""
        kind = self.case.operands[self.index].kind
        return f"{self.op_type}, {kind} {self.name}{self.case.name and ', ' + self.case.name}"


def prove_apart(one: Misplaced, engine: str) -> bool:
    """Assert of an index out of range that it ends as it does in the body alone.

    Where that fails, so does the fused map. Where it yields a result for every sample, the fused
    map yields the same ones. All other samples are poisoned, by a number or by NaN.

    Args:
        one: The body.
        engine: What runs both models.

    Returns:
        Whether the engine knows the operator.
    """
    run = ENGINES[engine]
    good = _poisoned(one.case, one.index)
    if engine not in one.engines or _outcome(run, alone(good), _feeds_alone(good, BAD)) is None:
        return False
    want = wanted(good, 3)
    model, reasons = fused(good, want)
    assert loops_of(model) == one.case.loops, f"loops are left: {reasons}"
    assert _differs(run, good, ir.to_proto(model), want) is None, (
        "it differs with indices in range"
    )
    for bad in (*one.bad, *(_far(one) if engine == "onnxruntime" else ())):
        case = _with_bad(good, one.index, bad)
        if case.operands[one.index].kind == "constant":
            model, _ = fused(case, want)
        said = _differs(run, case, ir.to_proto(model), want)
        assert said is None, f"{bad}: {said}"
    return True


def _far(one: Misplaced) -> list[int]:
    """Return numbers that overflow where something is added to them.

    The evaluator is not asked: some of its operators count up to them.
    """
    dtype = one.case.operands[one.index].first.dtype
    if not one.far or dtype.kind != "i" or np.ndim(one.bad[0]):
        return []
    wide = np.iinfo(dtype)
    return [wide.min, wide.max, 2**31 - 1, -(2**31)]


def _poisoned(case: RaggedCase, index: str) -> RaggedCase:
    """Return the case with a marker for each number of sample 0, and NaN for those of sample 2."""
    operands = {
        name: _neighbours(x) if name != index and x.first.dtype == np.float32 else x
        for name, x in case.operands.items()
    }
    return dataclasses.replace(case, operands=operands)


def _neighbours(x: Operand) -> Operand:
    if x.kind not in ("mapped", "ragged"):
        return x
    first, own, last = x.samples
    return Operand(x.kind, (np.full_like(first, MARKER), own, np.full_like(last, np.nan)))


def _with_bad(case: RaggedCase, index: str, bad: Any) -> RaggedCase:
    operand = case.operands[index]
    samples = list(operand.samples)
    place = BAD if len(samples) > 1 else 0
    if np.ndim(bad):
        samples[place] = np.asarray(bad, samples[place].dtype)
    else:
        samples[place] = samples[place].copy()
        samples[place].reshape(-1)[-1] = bad
    operands = {**case.operands, index: Operand(operand.kind, tuple(samples))}
    return dataclasses.replace(case, operands=operands)


def _differs(
    run: Engine,
    case: RaggedCase,
    proto: onnx.ModelProto,
    like: Sequence[Sequence[Array]],
) -> str | None:
    """Return how a fused model differs from the body alone, None if it does not."""
    want = [_outcome(run, alone(case), _feeds_alone(case, k)) for k in range(3)]
    got = _outcome(run, proto, feeds_of(case, 3))
    whole = [one for one in want if one is not None]
    if len(whole) < len(want):
        return None if got is None else "the body alone fails, and the fused map does not"
    if got is None:
        return "the fused map fails, and the body alone does not"
    for position, value in enumerate(got):
        expected = joined(whole, position, 3, like)
        if value.shape != expected.shape:
            return f"shape {value.shape}, wanted {expected.shape}"
        close = np.isclose(value, expected, 1e-4, 1e-5, equal_nan=True)
        if not close.all():
            return f"{value.tolist()}, wanted {expected.tolist()}"
    return None


def _feeds_alone(case: RaggedCase, k: int) -> dict[str, Array]:
    return {n: sample_of(o, k) for n, o in case.operands.items() if o.kind != "constant"}


def _outcome(
    run: Engine, proto: onnx.ModelProto, feeds: Mapping[str, Array]
) -> list[Array] | None:
    try:
        return run(proto, feeds)
    except Exception:
        return None
