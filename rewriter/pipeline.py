"""Rewriting a model: one code path for optimize, rewrite and explain."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

import onnx
import onnx_ir as ir

from passes.ceilings import Ceiling, clear_ceilings, mark_ceilings
from passes.decisions import Decision, Verdict
from passes.errors import RewriteError
from passes.graphs import all_nodes, forget_paths, node_paths, record_paths
from passes.names import make_names_unique
from passes.tensors.io import Refusal, TensorIo
from passes.unread import drop_initializers, unread_initializers
from rewriter import protos
from rewriter.checking import check, require_valid
from rewriter.left_loops import with_built_sequences, with_left_loops
from rewriter.model_facts import model_facts
from rewriter.models import AnyModel, ModelError, Taken, give, load, share, take
from rewriter.operator_counts import OperatorCounts, count_operators
from rewriter.options import STRATEGIES, Options, RewriteOptions, Strategy, takes_options
from rewriter.order import passes_for
from rewriter.pictures import pictures, regions_given
from rewriter.placement.placing import off_device, place
from rewriter.placement.predict import PredictedPlacement
from rewriter.proving import prove
from rewriter.report import Report
from rewriter.report_parts import Unreached
from rewriter.result import Result
from rewriter.rule_files import load_plugins
from rewriter.targets import TargetError, check_target, version_warnings
from rewriter.tried_remedies import MOST_NODES, Outcome, Trials
from rewriter.uniform_inputs import sequence_sources, with_named_inputs

__all__ = ["STRATEGIES", "Result", "Strategy", "explain", "optimize", "rewrite"]

logger = logging.getLogger(__name__)

M = TypeVar("M")
OnPass = Callable[[str, ir.Model], None]


@overload
def optimize(
    model: str | os.PathLike[str], *, verify: bool = False, **options: Unpack[RewriteOptions]
) -> onnx.ModelProto: ...
@overload
def optimize(model: M, *, verify: bool = False, **options: Unpack[RewriteOptions]) -> M: ...
@takes_options
def optimize(model: Any, *, verify: bool = False, **options: Unpack[RewriteOptions]) -> Any:
    """Return a model without SequenceMap that computes the same; see `rewrite`."""
    return rewrite(model, verify=verify, **options).model


@overload
def rewrite(
    model: str | os.PathLike[str],
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[onnx.ModelProto]: ...
@overload
def rewrite(
    model: M,
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[M]: ...
@takes_options
def rewrite(
    model: Any,
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[Any]:
    """Remove every SequenceMap from a model and say what was done.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model``, an
            ``onnx_graphsurgeon.Graph``, an ``ONNXProgram`` of ``torch.onnx.export`` or a function
            of onnxscript. It is never changed.
        on_pass: Called with the name of each pass and the model after it.
        ceilings: The furthest form that a map may take, by its path in ``model``.
        verify: Compare the new model with ``model`` on drawn inputs, see `rewriter.validate`. A
            map that is written wrongly takes a safer form; the report says which and why.
        options: ``strategy``, ``target``, ``uniform``, ``input_shapes``, ``trust_types``,
            ``tensor_io``, ``exact``, ``require`` and ``opset``; see
            `rewriter.options.RewriteOptions`.

    Raises:
        TargetError: The target or a requirement is not reached; it holds the report.
        VerificationError: The models differ and that cannot be repaired, or nothing could be
            verified; it holds the report and the comparison.
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    if verify and isinstance(model, str | os.PathLike):
        # A message does not say where its weights lie, which the comparison has to know.
        proven = rewrite(load(model), on_pass=on_pass, ceilings=ceilings, verify=True, **options)
        return Result(protos.to_proto(proven.model), proven.report)
    asked = Options(**options)

    def written(limits: Mapping[str, Ceiling]) -> Result[Any]:
        taken = take(model)
        report = _run(taken, asked, on_pass, limits)
        if not report.reached:
            raise TargetError(report)
        return Result(give(taken, taken.model), report)

    result = written(ceilings or {})
    return prove(model, result, written) if verify else result


@takes_options
def explain(model: AnyModel, **options: Unpack[RewriteOptions]) -> Report:
    """Return the report that `rewrite` would give; an unreached target does not raise."""
    return _run(take(model), Options(**options))


def _run(
    taken: Taken,
    options: Options,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
) -> Report:
    load_plugins()
    model = taken.model
    mark_ceilings(model, ceilings or {})
    options.check_promises(model)
    before, spent, facts = count_operators(model), options.spent(model), model_facts(model)
    regions = regions_given(model)
    given = _copy_to_try(model, before.total)
    work = _rewrite(model, options, lambda: take(taken.original).model, on_pass)
    checked = _check(model, taken.original)
    return Report(
        decisions=tuple(work.decisions),
        before=before,
        after=count_operators(model),
        given=facts,
        new=model_facts(model),
        pictures=pictures(regions, model, work.decisions),
        promises=options.promises,
        target=options.target,
        require=tuple(options.require),
        blocked=tuple(work.blocked),
        spent=spent,
        strategy=options.strategy,
        warnings=(*work.warnings, *checked),
        placement=work.placement or place(model, options.row),
        tensor_io=dataclasses.replace(TensorIo.read(model), assumptions=work.assumptions),
        trials=None if given is None else Trials(_outcome(work), options, given, _try),
    )


def _copy_to_try(model: ir.Model, count: int) -> ir.Model | None:
    """Copy a model as given, to try remedies on; None if it is too large, or cannot be copied."""
    if count > MOST_NODES:
        return None
    try:
        return share(model)
    except Exception:  # a graph that is not sorted, which the passes may mend
        return None


@dataclasses.dataclass
class _Work:
    """What the passes said of a model that they rewrote."""

    decisions: list[Decision] = dataclasses.field(default_factory=list)
    blocked: list[Unreached] = dataclasses.field(default_factory=list)
    assumptions: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    placement: PredictedPlacement | None = None


def _rewrite(
    model: ir.Model,
    options: Options,
    given: Callable[[], ir.Model],
    on_pass: OnPass | None = None,
    level: int = logging.INFO,
) -> _Work:
    """Run the passes that the options ask for.

    Args:
        model: The model; it is changed.
        options: What is asked.
        given: Returns a copy of the model as given.
        on_pass: Called with the name of each pass and the model after it.
        level: How loudly passes and times are logged.
    """
    forget_paths(all_nodes(model))
    record_paths(node_paths(model))
    spent, sources = options.spent(model), sequence_sources(model)
    unread = unread_initializers(model)
    work, declined, refused = _Work(), dict[str, Decision](), list[Refusal]()
    counted = count_operators(model)
    for one in passes_for(options, model):
        start = time.perf_counter()
        result = _apply(one, model, given)
        declined |= getattr(one, "declined", {})
        refused.extend(getattr(one, "refused", ()))
        work.assumptions.extend(io.assumptions if (io := getattr(one, "io", None)) else ())
        work.decisions.extend(
            d if d.verdict is Verdict.UNROLLED else declined.get(d.path, d)
            for d in getattr(one, "decisions", ())
        )
        work.warnings.extend(getattr(one, "warnings", ()))
        name, seconds = type(one).__name__, time.perf_counter() - start
        if logger.isEnabledFor(level):
            counts, counted = counted, count_operators(model)
            changed = _changed(counts, counted) if result.modified else "nothing changed"
            logger.log(level, "%s: %.4f s, %s", name, seconds, changed)
        if on_pass is not None:
            on_pass(name, model)
    clear_ceilings(model)
    make_names_unique(model)
    drop_initializers(model, unread)
    decisions = with_built_sequences(_final(work.decisions, model), model)
    decisions = with_left_loops(decisions, model, options.strategy)
    work.decisions = with_named_inputs(decisions, sources, options.promises.uniform)
    options.promises.write(model)
    target, required = options.target, tuple(options.require)
    work.warnings += version_warnings(model, target)
    work.blocked = check_target(model, target, required, refused, work.decisions, spent)
    if "on-device" in required and (found := place(model, options.row)):
        work.placement = found
        work.blocked += off_device(found)
    forget_paths(all_nodes(model))
    return work


def _changed(before: OperatorCounts, after: OperatorCounts) -> str:
    """Say by how many nodes of each operator two models differ."""
    one, other = before.by_type, after.by_type
    differences = {kind: other.get(kind, 0) - one.get(kind, 0) for kind in {**one, **other}}
    changed = [f"{kind} {n:+d}" for kind, n in sorted(differences.items()) if n]
    return ", ".join(changed) or "changed, with as many nodes of each operator"


def _outcome(work: _Work) -> Outcome:
    return Outcome(work.decisions, frozenset((left.node, left.op_type) for left in work.blocked))


def _try(model: ir.Model, options: Options) -> Outcome | None:
    """Rewrite a copy of a model; a change of options that it does not bear is no remedy."""
    copy = share(model)
    try:
        options.check_promises(copy)
        return _outcome(_rewrite(copy, options, lambda: share(model), level=logging.DEBUG))
    except Exception as error:
        logger.debug("tried in vain: %s", error)
        return None


def _apply(
    one: ir.passes.InPlacePass, model: ir.Model, given: Callable[[], ir.Model]
) -> ir.passes.PassResult:
    """Run a pass; what it stumbles over in a model that is not valid is the model's fault."""
    try:
        return one(model)
    except RewriteError:
        raise
    except Exception:
        require_valid(given())
        raise


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
