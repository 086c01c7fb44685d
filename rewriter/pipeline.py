"""Rewriting a model: one code path for optimize, rewrite and explain."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from passes.ceilings import Ceiling, clear_ceilings, mark_ceilings
from passes.decisions import Decision, Verdict
from passes.errors import RewriteError
from passes.graphs import node_paths
from passes.names import make_names_unique
from passes.tensors.io import Refusal, TensorIo
from passes.unread import drop_initializers, unread_initializers
from rewriter.built_sequences import with_built_sequences
from rewriter.checking import check, require_valid
from rewriter.models import AnyModel, ModelError, Taken, give, take
from rewriter.options import STRATEGIES, Dims, Options, Strategy
from rewriter.order import passes_for
from rewriter.proving import prove
from rewriter.report import Report, count_operators
from rewriter.result import Result
from rewriter.targets import TargetError, check_target, version_warnings
from rewriter.uniform_inputs import sequence_sources, with_named_inputs

__all__ = ["STRATEGIES", "Result", "Strategy", "explain", "optimize", "rewrite"]

logger = logging.getLogger(__name__)


def optimize(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: str | Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: str | Iterable[str] = (),
    verify: bool = False,
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
        verify=verify,
    ).model


def rewrite(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: str | Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: str | Iterable[str] = (),
    on_pass: Callable[[str, ir.Model], None] | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
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
        ceilings: The furthest form that a map may take, by its path in ``model``.
        verify: Compare the new model with ``model`` on drawn inputs, see `rewriter.validate`. A
            map that is written wrongly takes a safer form; the report says which and why.

    Raises:
        TargetError: The target or a requirement is not reached; it holds the report.
        VerificationError: The models differ and that cannot be repaired, or nothing could be
            verified; it holds the report and the comparison.
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    options = Options(
        strategy, target, uniform, input_shapes, trust_types, tensor_io, exact, require
    )

    def written(limits: Mapping[str, Ceiling]) -> Result:
        taken = take(model)
        report = _run(taken, options, on_pass, limits)
        if report.unreached:
            raise TargetError(report)
        return Result(give(taken, taken.model), report)

    result = written(ceilings or {})
    return prove(model, result, written) if verify else result


def explain(
    model: AnyModel,
    strategy: Strategy = "auto",
    target: str = "onnxruntime",
    uniform: str | Iterable[str] = (),
    input_shapes: Mapping[str, Dims] | None = None,
    trust_types: bool = False,
    tensor_io: bool = False,
    exact: bool = False,
    require: str | Iterable[str] = (),
) -> Report:
    """Return the report that `rewrite` would give; an unreached target does not raise."""
    options = Options(
        strategy, target, uniform, input_shapes, trust_types, tensor_io, exact, require
    )
    return _run(take(model), options)


def _run(
    taken: Taken,
    options: Options,
    on_pass: Callable[[str, ir.Model], None] | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
) -> Report:
    model = taken.model
    mark_ceilings(model, ceilings or {})
    options.check_promises(model)
    spent, sources = options.spent(model), sequence_sources(model)
    before, unread = count_operators(model), unread_initializers(model)
    decisions: list[Decision] = []
    declined: dict[str, Decision] = {}
    kept: dict[ir.Node, Decision] = {}
    refused: list[Refusal] = []
    assumptions: list[str] = []
    warnings: list[str] = []
    for one in passes_for(options, model):
        start = time.perf_counter()
        result = _apply(one, model, taken.original)
        declined |= getattr(one, "declined", {})
        kept |= getattr(one, "kept", {})
        refused.extend(getattr(one, "refused", ()))
        assumptions.extend(io.assumptions if (io := getattr(one, "io", None)) else ())
        decisions.extend(
            d if d.verdict is Verdict.UNROLLED else declined.get(d.path, d)
            for d in getattr(one, "decisions", ())
        )
        warnings.extend(getattr(one, "warnings", ()))
        name = type(one).__name__
        logger.info("%s: %.4f s, modified: %s", name, time.perf_counter() - start, result.modified)
        if on_pass is not None:
            on_pass(name, model)
    clear_ceilings(model)
    make_names_unique(model)
    drop_initializers(model, unread)
    decisions = with_built_sequences(_final(decisions, kept, model), model)
    decisions = with_named_inputs(decisions, sources, options.promises.uniform)
    options.promises.write(model)
    target, required = options.target, tuple(options.require)
    warnings += [*version_warnings(model, target), *_check(model, taken.original)]
    return Report(
        decisions=tuple(decisions),
        before=before,
        after=count_operators(model),
        promises=options.promises,
        target=target,
        require=required,
        unreached=tuple(check_target(model, target, required, refused, decisions, spent)),
        spent=spent,
        strategy=options.strategy,
        warnings=tuple(warnings),
        tensor_io=dataclasses.replace(TensorIo.read(model), assumptions=assumptions),
    )


def _apply(
    one: ir.passes.InPlacePass, model: ir.Model, original: AnyModel
) -> ir.passes.PassResult:
    """Run a pass; what it stumbles over in a model that is not valid is the model's fault."""
    try:
        return one(model)
    except RewriteError:
        raise
    except Exception:
        require_valid(take(original).model)
        raise


def _final(
    decisions: Sequence[Decision], kept: Mapping[ir.Node, Decision], model: ir.Model
) -> list[Decision]:
    """Leave out what was said of Loops that a later decision took away.

    Those that are left are called by their paths in the new model: the path of a node without a
    name counts the nodes before it.
    """
    paths = node_paths(model)
    left = set(paths.values())
    moved = {id(decision): paths[node] for node, decision in kept.items() if node in paths}
    decisions = [_at_path(d, moved.get(id(d), d.path)) for d in decisions]
    final: list[Decision] = []
    for i, decision in enumerate(decisions):
        later = {other.path for other in decisions[i + 1 :]}
        if decision.verdict is Verdict.KEPT and (
            decision.path in later or decision.path not in left
        ):
            continue
        final.append(decision)
    return final


def _at_path(decision: Decision, path: str) -> Decision:
    """Return a decision of a node that has another path now."""
    inside = f"{decision.path}/"
    reasons = [
        dataclasses.replace(reason, node=f"{path}/{reason.node.removeprefix(inside)}")
        if reason.node.startswith(inside)
        else reason
        for reason in decision.reasons
    ]
    return dataclasses.replace(decision, path=path, reasons=reasons)


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
