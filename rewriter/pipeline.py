"""The order of work: one code path for rewrite, optimize and explain."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.eliminate import EliminateSequencesPass
from passes.errors import RewriteError
from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.fuse_loops import ReadLoopsPass
from passes.graphs import node_paths
from passes.inline import InlineMapFunctionsPass
from passes.names import make_names_unique
from passes.old_forms import OldFormsPass
from passes.promises import Promises
from passes.simplify import SimplifyBodiesPass
from passes.tensors.finish import FinishTensorIoPass
from passes.tensors.inputs import TensorInputsPass
from passes.tensors.io import Refusal, TensorIo
from passes.tensors.outputs import TensorOutputsPass
from passes.unread import drop_initializers, read_initializers
from passes.unroll import UnrollSequenceMapPass
from rewriter.checking import check
from rewriter.models import AnyModel, ModelError, Taken, give, take
from rewriter.report import Report, count_operators
from rewriter.targets import REQUIREMENTS, TargetError, check_target, find_target, version_warnings

__all__ = ["STRATEGIES", "Result", "Strategy", "explain", "optimize", "rewrite"]

logger = logging.getLogger(__name__)

Strategy = Literal["auto", "fuse", "expand"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
Dims = Sequence[int | str | None]


@dataclasses.dataclass(frozen=True)
class Result:
    """A rewritten model and what was done to it.

    Attributes:
        model: The new model, of the kind that was handed in (a path gives an
            ``onnx.ModelProto``).
        report: Decisions, operators before and after, assumptions.
    """

    model: AnyModel
    report: Report


def optimize(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: Iterable[str] = (),
) -> AnyModel:
    """Return a model without SequenceMap that computes the same; see `rewrite`."""
    return rewrite(
        model,
        strategy,
        target,
        uniform,
        input_shapes,
        trust_types,
        tensor_io,
        exact,
        require,
    ).model


def rewrite(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: Iterable[str] = (),
    on_pass: Callable[[str, ir.Model], None] | None = None,
) -> Result:
    """Remove every SequenceMap from a model and say what was done.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model`` or an
            ``onnx_graphsurgeon.Graph``. It is never changed.
        strategy: ``auto`` fuses where it is proven and pays, ``fuse`` wherever a rule exists,
            ``expand`` makes loops.
        target: Name of the consumer of the new model, see `rewriter.targets`.
        uniform: Names of sequences whose elements have one shape; a promise.
        input_shapes: Shapes of inputs (of the elements, for a sequence), None or a string for
            an unknown dimension; a promise.
        trust_types: Promise that all numbers in declared sequence types hold.
        tensor_io: Turn sequence inputs and outputs into tensors.
        exact: Keep per-sample what batching could change by rounding before a discrete operator.
        require: ``sequence-free``, ``loop-free``, or both.
        on_pass: Called with the name of each pass and the model after it.

    Raises:
        TargetError: The target or a requirement is not reached; it holds the report.
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    taken = take(model)
    options = _options(strategy, uniform, input_shapes, trust_types, exact)
    report = _run(taken, options, target, require, tensor_io, on_pass)
    if report.unreached:
        raise TargetError(report)
    return Result(give(taken, taken.model), report)


def explain(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: Iterable[str] = (),
) -> Report:
    """Return the report that `rewrite` would give; an unreached target does not raise."""
    options = _options(strategy, uniform, input_shapes, trust_types, exact)
    return _run(take(model), options, target, require, tensor_io, None)


@dataclasses.dataclass(frozen=True)
class _Options:
    strategy: Strategy
    promises: Promises
    exact: bool
    sequence_free: bool = False


def _options(
    strategy: Strategy,
    uniform: Iterable[str],
    input_shapes: Mapping[str, Dims] | None,
    trust_types: bool,
    exact: bool,
) -> _Options:
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise RewriteError(f"unknown strategy {strategy!r}: choose one of {known}.")
    shapes = {
        name: tuple(d if isinstance(d, int) else None for d in dims)
        for name, dims in (input_shapes or {}).items()
    }
    return _Options(strategy, Promises(frozenset(uniform), shapes, trust_types), exact)


def _run(
    taken: Taken,
    options: _Options,
    target: str,
    require: Iterable[str],
    tensor_io: bool,
    on_pass: Callable[[str, ir.Model], None] | None,
) -> Report:
    required = tuple(require)
    for name in required:
        if name not in REQUIREMENTS:
            raise RewriteError(
                f"unknown requirement {name!r}: choose among {', '.join(REQUIREMENTS)}."
            )
    model = taken.model
    _check_promises(model, options.promises)
    before, initializers = count_operators(model), read_initializers(model)
    decisions: list[Decision] = []
    declined: dict[str, Decision] = {}
    refused: list[Refusal] = []
    assumptions: list[str] = []
    sequence_free = "sequence-free" in required or not find_target(target).sequences
    options = dataclasses.replace(options, sequence_free=sequence_free)
    passes = _passes(options, model, tensor_io)
    if find_target(target).old_forms:
        passes.append(OldFormsPass())
    for one in passes:
        start = time.perf_counter()
        result = one(model)
        declined |= getattr(one, "declined", {})
        refused.extend(getattr(one, "refused", ()))
        assumptions.extend(io.assumptions if (io := getattr(one, "io", None)) else ())
        decisions.extend(
            d if d.verdict is Verdict.UNROLLED else declined.get(d.path, d)
            for d in getattr(one, "decisions", ())
        )
        name = type(one).__name__
        logger.info("%s: %.4f s, modified: %s", name, time.perf_counter() - start, result.modified)
        if on_pass is not None:
            on_pass(name, model)
    make_names_unique(model)
    drop_initializers(model, initializers)
    decisions = _final(decisions, model)
    options.promises.write(model)
    warnings = [*version_warnings(model, target), *_check(model, taken.original)]
    return Report(
        decisions=tuple(decisions),
        before=before,
        after=count_operators(model),
        promises=options.promises,
        target=target,
        require=required,
        unreached=tuple(check_target(model, target, required, refused, decisions)),
        strategy=options.strategy,
        warnings=tuple(warnings),
        tensor_io=dataclasses.replace(TensorIo.read(model), assumptions=assumptions),
    )


def _final(decisions: Sequence[Decision], model: ir.Model) -> list[Decision]:
    """Leave out what was said of Loops that a later decision took away."""
    left = set(node_paths(model).values())
    final: list[Decision] = []
    for i, decision in enumerate(decisions):
        later = {other.path for other in decisions[i + 1 :]}
        if decision.verdict is Verdict.KEPT and (
            decision.path in later or decision.path not in left
        ):
            continue
        final.append(decision)
    return final


def _check(model: ir.Model, original: AnyModel) -> list[str]:
    """Check the new model; what is wrong with the original too is a warning."""
    try:
        check(model)
    except ModelError as error:
        try:
            check(take(original).model)
        except ModelError:
            return [f"the model was not valid before the rewrite: {error}"]
        raise
    return []


def _passes(options: _Options, model: ir.Model, tensor_io: bool) -> list[ir.passes.InPlacePass]:
    if not tensor_io:
        return _passes_for_maps(options)
    # What is promised of the elements of a sequence does not hold of the tensor in its place.
    sequences = {v.name for v in model.graph.inputs if isinstance(v.type, ir.SequenceType)}
    rest = options.promises.without_shapes(sequences)
    passes = _passes_for_maps(dataclasses.replace(options, promises=rest))
    maps = [i for i, one in enumerate(passes) if isinstance(one, _MAP_PASSES)]
    first = TensorOutputsPass(rest, is_first=True)
    passes.insert(maps[-1] + 1, TensorOutputsPass(rest, first=first))
    passes.insert(maps[0], first)
    return [passes[0], TensorInputsPass(options.promises), *passes[1:], FinishTensorIoPass()]


_MAP_PASSES = (FuseSequenceMapPass, ExpandSequenceMapPass)


def _passes_for_maps(options: _Options) -> list[ir.passes.InPlacePass]:
    if options.strategy == "expand":
        reason = Reason(Code.STRATEGY)
        return [InlineMapFunctionsPass(), ExpandSequenceMapPass(reason=reason)]
    auto = options.strategy == "auto"
    return [
        InlineMapFunctionsPass(),
        ReadLoopsPass(options.promises, exact=options.exact, auto=auto),
        SimplifyBodiesPass(),
        UnrollSequenceMapPass(),
        FuseSequenceMapPass(options.promises, exact=options.exact, auto=auto),
        ReadLoopsPass(options.promises, exact=options.exact, auto=auto, again=True),
        UnrollSequenceMapPass(is_fused=True),
        ExpandSequenceMapPass(),
        EliminateSequencesPass(required=options.sequence_free),
    ]


def _check_promises(model: ir.Model, promises: Promises) -> None:
    inputs = {value.name for value in model.graph.inputs}
    for name in promises.input_shapes:
        if name not in inputs:
            raise RewriteError(
                f"the promised shape is for {name!r}, which is no input of the model: the inputs "
                f"are {', '.join(sorted(n for n in inputs if n))}."
            )
    sequences = {v.name for v in model.graph.inputs if isinstance(v.type, ir.SequenceType)}
    for name in sorted(promises.uniform):
        if name not in sequences:
            raise RewriteError(
                f"{name!r} is promised to be uniform, but is no sequence input of the model: its "
                f"sequence inputs are {', '.join(sorted(n for n in sequences if n)) or 'none'}."
            )
