"""Rewriting a model: one code path for optimize, rewrite and explain."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, overload

import onnx
import onnx_ir as ir

from passes.decisions import Decision
from passes.promises import Ceiling, clear_ceilings, mark_ceilings
from passes.tensors.io import TENSOR_IO_KEY, TensorIo
from rewriter.model_files import protos
from rewriter.model_files.checking import check_result
from rewriter.model_files.kinds import AnyModel, GivesMessage, SameKind
from rewriter.model_files.model_facts import count_operators, model_facts
from rewriter.model_files.models import Taken, give, seldom_collected, share, take
from rewriter.model_files.on_disk import load
from rewriter.option_values import refuse_flag
from rewriter.options import STRATEGIES, Options, RewriteOptions, Strategy, takes_options
from rewriter.order import OnPass, Work, run_passes
from rewriter.placement.placing import place
from rewriter.proof.faults import without_fault
from rewriter.proof.proving import prove
from rewriter.proof.without_if import branches_of, find_without_if
from rewriter.reporting.pictures import DrawnLater, Picture, Region, pictures, regions_given
from rewriter.reporting.report import Report, Result
from rewriter.reporting.tried_remedies import MOST_NODES, Outcome, Trials
from rewriter.rule_files import load_plugins
from rewriter.targets import TargetError

__all__ = ["STRATEGIES", "Result", "Strategy", "explain", "optimize", "rewrite"]

logger = logging.getLogger(__name__)


@overload
def optimize(
    model: GivesMessage, *, verify: bool = False, **options: Unpack[RewriteOptions]
) -> onnx.ModelProto: ...
@overload
def optimize(
    model: SameKind, *, verify: bool = False, **options: Unpack[RewriteOptions]
) -> SameKind: ...
@takes_options
def optimize(model: Any, *, verify: bool = False, **options: Unpack[RewriteOptions]) -> Any:
    """Return a model that computes the same without SequenceMap, by batched operators.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model``, an
            ``onnx_graphsurgeon.Graph``, an ``ONNXProgram`` of ``torch.onnx.export`` or a function
            of onnxscript. It is never changed.
        verify: Compare the new model with ``model`` on drawn inputs, see `rewriter.validate`.
        options: The options of a rewrite.

    Returns:
        The new model, of the kind that was handed in; an ``onnx.ModelProto`` for a path. `rewrite`
        gives the report too.

    Raises:
        TargetError: The target or a requirement is not reached; it holds the report.
        VerificationError: The models differ and that cannot be repaired, or nothing could be
            verified; it holds the report and the comparison.
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    return rewrite(model, verify=verify, **options).model


@overload
def rewrite(
    model: GivesMessage,
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[onnx.ModelProto]: ...
@overload
def rewrite(
    model: SameKind,
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[SameKind]: ...
@takes_options
@seldom_collected()
def rewrite(
    model: Any,
    *,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
    verify: bool = False,
    **options: Unpack[RewriteOptions],
) -> Result[Any]:
    """Put batched operators in the place of SequenceMap, Loop and Scan; say what was done.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model``, an
            ``onnx_graphsurgeon.Graph``, an ``ONNXProgram`` of ``torch.onnx.export`` or a function
            of onnxscript. It is never changed.
        on_pass: Called with the name of each pass and the model after it; the model is rewritten
            once more for that, after it is known which maps no pass fails on.
        ceilings: The furthest form that a map may take, by its path in ``model``.
        verify: Compare the new model with ``model`` on drawn inputs, see `rewriter.validate`. A
            map that is written wrongly takes a safer form; the report says which and why.
        options: The options of a rewrite.

    Raises:
        TargetError: The target or a requirement is not reached; it holds the report.
        VerificationError: The models differ and that cannot be repaired, or nothing could be
            verified; it holds the report and the comparison.
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    if not isinstance(verify, bool):
        refuse_flag("verify", verify)
    if verify and isinstance(model, str | os.PathLike):
        # A message does not say where its weights lie, which the comparison has to know.
        proven = rewrite(load(model), on_pass=on_pass, ceilings=ceilings, verify=True, **options)
        return Result(protos.to_proto(proven.model), proven.report)
    asked = Options(**options)

    def written(limits: Mapping[str, Ceiling]) -> Result[Any]:
        result = _run(model, asked, on_pass, limits)
        if result.report.blocked:
            raise TargetError(result.report)
        return Result(give(result.model, result.model.model), result.report)

    result = written(ceilings or {})
    return prove(model, result, written) if verify else result


@takes_options
@seldom_collected()
def explain(model: AnyModel, **options: Unpack[RewriteOptions]) -> Report:
    """Return the report that `rewrite` would give; an unreached target does not raise.

    Args:
        model: What `rewrite` takes; it is never changed.
        options: The options of a rewrite.

    Raises:
        RewriteError: An option is not known, or the model cannot be rewritten.
    """
    return explained(model, **options).report


def explained(model: AnyModel, **options: Unpack[RewriteOptions]) -> Result[ir.Model]:
    """Return the report of `explain`, and the new model that it tells about."""
    result = _run(model, Options(**options))
    return Result(result.model.model, result.report)


def _run(
    model: AnyModel,
    options: Options,
    on_pass: OnPass | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
) -> Result[Taken]:
    """Rewrite a copy of a model; who listens to the passes hears those of the final rewrite."""
    load_plugins()

    def written(limits: Mapping[str, Ceiling], heard: OnPass | None = None) -> Result[Taken]:
        def write(asked: Options) -> tuple[Taken, Report]:
            taken = take(model)
            return taken, _written(taken, asked, heard, limits)

        taken, report = write(options)
        if options.row.rather_without_if:
            given = branches_of(take(model).model)
            preferred = find_without_if(options, given, taken.model, report, write)
            taken, report = preferred or (taken, report)
        return Result(taken, report)

    again = functools.partial(written, heard=on_pass) if on_pass else None
    limits = ceilings or {}
    try:
        result = written(limits)
    except Exception as fault:
        return without_fault(fault, model, written, limits, again)
    return result if again is None else again(limits)


def _written(
    taken: Taken, options: Options, on_pass: OnPass | None, ceilings: Mapping[str, Ceiling]
) -> Report:
    model = taken.model
    if ceilings:
        mark_ceilings(model, ceilings)
    options.check_promises(model)
    before, spent, facts = count_operators(model), options.spent(model), model_facts(model)
    given = _copy_to_try(model, before.total)
    regions = regions_given(model) if given is None else {}
    work = run_passes(model, options, lambda: take(taken.original).model, on_pass)
    if ceilings:
        clear_ceilings(model)
    checked = check_result(model, lambda: take(taken.original).model)
    after = count_operators(model)
    return Report(
        decisions=tuple(work.decisions),
        before=before,
        after=after,
        given=facts,
        new=model_facts(model),
        pictures=_pictures(regions, given, model, after.total, work.decisions),
        promises=options.promises,
        target=options.target,
        require=tuple(options.require),
        blocked=tuple(work.blocked),
        spent=spent,
        strategy=options.strategy,
        warnings=(*_each_once(work.warnings), *checked),
        placement=work.placement or (place(model, options.row) if options.row.kernels else None),
        tensor_io=_tensor_io(model, work.assumptions),
        trials=None if given is None else Trials(_outcome(work), options, given, _try),
    )


def _pictures(
    regions: Mapping[str, Region],
    given: ir.Model | None,
    model: ir.Model,
    count: int,
    decisions: Sequence[Decision],
) -> Sequence[Picture]:
    """Return a picture of each map; those of a small model are drawn when they are looked at.

    Args:
        regions: What stood around each map, where there is no copy of the model as given.
        given: A copy of the model as given, which nobody changes.
        model: The new model.
        count: The number of its nodes.
        decisions: What was done with each map.
    """
    if given is None:
        return pictures(regions, model, decisions)
    new = _copy_to_try(model, count)
    if new is None:
        return pictures(regions_given(given), model, decisions)
    return DrawnLater(lambda: pictures(regions_given(given), new, decisions))


def _tensor_io(model: ir.Model, assumptions: list[str]) -> TensorIo:
    """Return what a model says of the sequences that it passes as tensors."""
    io = TensorIo.read(model) if TENSOR_IO_KEY in model.metadata_props else TensorIo()
    return dataclasses.replace(io, assumptions=assumptions)


def _each_once(warnings: Sequence[str]) -> list[str]:
    """Tell what is wrong with several nodes once, at the first of them."""
    groups: dict[str, list[str]] = {}
    for warning in warnings:
        where, _, what = warning.partition(": ")
        groups.setdefault(what or warning, []).append(where if what else "")
    return [
        f"{first}{f' (and {len(others)} more)' * bool(others)}: {what}" if first else what
        for what, (first, *others) in groups.items()
    ]


def _copy_to_try(model: ir.Model, count: int) -> ir.Model | None:
    """Copy a model as given, to try remedies on; None if it is too large, or cannot be copied."""
    if count > MOST_NODES:
        return None
    try:
        return share(model)
    except Exception:  # a graph that is not sorted, which the passes may mend
        return None


def _outcome(work: Work) -> Outcome:
    return Outcome(work.decisions, frozenset((left.node, left.op_type) for left in work.blocked))


def _try(model: ir.Model, options: Options) -> Outcome | None:
    """Rewrite a copy of a model; a change of options that it does not bear is no remedy."""
    copy = share(model)
    try:
        options.check_promises(copy)
        return _outcome(run_passes(copy, options, lambda: share(model), level=logging.DEBUG))
    except Exception as error:
        logger.debug("tried in vain: %s", error)
        return None
