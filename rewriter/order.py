"""The order of work: which passes a rewrite runs, in which order, and what they say."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import onnx_ir as ir

from passes.common_subexpressions import EliminateCommonSubexpressionsPass
from passes.decisions import Code, Decision, Reason, Verdict
from passes.eliminate import EliminateSequencesPass
from passes.expand import ExpandSequenceMapPass
from passes.fixed_lists import FixedListsPass
from passes.fold_branches import FoldBranchesPass
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_nodes, forget_paths, node_paths, record_paths
from passes.graph.names import make_names_unique
from passes.graph.splice import drop_initializers, unread_initializers
from passes.inline import InlineMapFunctionsPass
from passes.promises import Promises
from passes.reading.kept_typing import KeptTyping
from passes.runtimes import (
    Authored,
    ElementSymbolsPass,
    LoopConditionsPass,
    LoopStatesPass,
    NearConstantsPass,
    NearWeightsPass,
    OneBranchPass,
    SidestepDefectsPass,
)
from passes.runtimes.convert_opset import ConvertOpsetPass
from passes.runtimes.old_forms import OldFormsPass
from passes.runtimes.scan_ranks import forget_shapes, name_scan_ranks
from passes.runtimes.select_branches import SelectBranchesPass
from passes.runtimes.table import DEFECTS
from passes.simplify import SimplifyBodiesPass
from passes.tensors.finish import FinishTensorIoPass
from passes.tensors.inputs import TensorInputsPass
from passes.tensors.io import Refusal
from passes.tensors.outputs import TensorOutputsPass
from passes.unbinds import PyTorchRanksPass, PyTorchUnbindPass
from passes.unroll import UnrollSequenceMapPass
from rewriter.model_files.checking import run_pass
from rewriter.model_files.model_facts import OperatorCounts, count_operators
from rewriter.options import Options, sequence_inputs
from rewriter.placement.device_kernels import passes_behind_all, passes_for_device, splits_on_host
from rewriter.placement.placing import off_device, place
from rewriter.placement.predict import PredictedPlacement
from rewriter.reporting.final_decisions import (
    sequence_sources,
    with_built_sequences,
    with_carried_tensors,
    with_left_loops,
    with_named_inputs,
    with_reasons_of_readers,
    without_replaced,
)
from rewriter.reporting.given_nodes import with_given_nodes, with_given_paths
from rewriter.reporting.listening import tell
from rewriter.target_table import Unreached
from rewriter.targets import check_target, version_warnings

__all__ = ["OnPass", "Work", "passes_for", "run_passes"]

logger = logging.getLogger(__name__)

OnPass = Callable[[str, ir.Model], None]
"""A function that is called with the name of each pass and the model after it."""

_MAP_PASSES = (FuseSequenceMapPass, ExpandSequenceMapPass)


@dataclasses.dataclass
class Work:
    """The findings of the passes over one model."""

    decisions: list[Decision] = dataclasses.field(default_factory=list)
    blocked: list[Unreached] = dataclasses.field(default_factory=list)
    assumptions: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    placement: PredictedPlacement | None = None

    def add(self, one: ir.passes.InPlacePass, declined: Mapping[str, Decision]) -> None:
        """Add what a pass found.

        Args:
            one: The pass.
            declined: What passes before it said of maps that it may speak of too; that counts.
        """
        self.assumptions.extend(getattr(getattr(one, "io", one), "assumptions", ()))
        self.decisions.extend(
            d if d.verdict is Verdict.UNROLLED else declined.get(d.path, d)
            for d in getattr(one, "decisions", ())
        )
        self.warnings.extend(getattr(one, "warnings", ()))


def run_passes(
    model: ir.Model,
    options: Options,
    given: Callable[[], ir.Model],
    on_pass: OnPass | None = None,
    level: int = logging.INFO,
) -> Work:
    """Run the passes that the options ask for.

    Args:
        model: The model; it is changed.
        options: What is asked.
        given: Returns a copy of the model as given.
        on_pass: Called with the name of each pass and the model after it.
        level: How loudly passes and times are logged.
    """
    forget_paths(all_nodes(model))
    paths = node_paths(model)
    operators = {path: node.op_type for node, path in paths.items()}
    record_paths(paths)
    spent = options.spent(model)
    sources = sequence_sources(model) if sequence_inputs(model) else {}
    unread = unread_initializers(model)
    work, declined, refused = Work(), dict[str, Decision](), list[Refusal]()
    counted, is_changed = count_operators(model), False
    yielded = name_scan_ranks(model) if "Scan" in counted.operators else []
    asked = passes_for(options, model)
    for number, one in enumerate(asked, start=1):
        tell(f"pass {number} of {len(asked)}, {type(one).__name__}")
        start = time.perf_counter()
        modified = _has_work(one, model, counted) and run_pass(one, model, given).modified
        is_changed |= modified
        declined |= getattr(one, "declined", {})
        refused.extend(getattr(one, "refused", ()))
        work.add(one, declined)
        name, seconds = type(one).__name__, time.perf_counter() - start
        counts, counted = counted, count_operators(model) if modified else counted
        if logger.isEnabledFor(level):
            changed = counted.changes(counts) if modified else "nothing changed"
            logger.log(level, "%s: %.3f s, %s", name, seconds, changed)
        if on_pass is not None:
            on_pass(name, model)
    if yielded and not is_changed:
        forget_shapes(yielded)
    make_names_unique(model)
    drop_initializers(model, unread)
    has_loops = not counted.operators.isdisjoint(("Loop", "Scan"))
    work.decisions = _settled(work.decisions, model, options, sources, has_loops=has_loops)
    if any(decision.reasons or decision.path not in operators for decision in work.decisions):
        work.decisions = with_given_nodes(work.decisions, operators)
    options.promises.write(model)
    target, required = options.target, tuple(options.require)
    work.warnings += version_warnings(model, target)
    blocked = check_target(model, target, required, refused, work.decisions, spent)
    work.blocked = with_given_paths(blocked, operators) if blocked else []
    if "on-device" in required and (found := place(model, options.row)):
        work.placement = found
        work.blocked += off_device(found)
    forget_paths(all_nodes(model))
    return work


def _settled(
    decisions: list[Decision],
    model: ir.Model,
    options: Options,
    sources: Mapping[str, frozenset[str]],
    *,
    has_loops: bool,
) -> list[Decision]:
    """Return what is said of each map of the new model, which holds Loops or Scans or none."""
    if any(decision.verdict is Verdict.KEPT for decision in decisions):
        decisions = without_replaced(decisions, model)
    if any(decision.readers for decision in decisions):
        decisions = with_reasons_of_readers(decisions)
    if has_loops:
        decisions = with_built_sequences(decisions, model)
        decisions = with_left_loops(decisions, model, options.strategy)
        decisions = with_carried_tensors(decisions, model)
    if any(decision.reasons for decision in decisions):
        decisions = with_named_inputs(decisions, sources, options.promises.uniform)
    return decisions


def _has_work(one: ir.passes.InPlacePass, model: ir.Model, counted: OperatorCounts) -> bool:
    """Whether a model holds one of each group of operators that a pass is only for."""
    if isinstance(one, InlineMapFunctionsPass):
        return bool(model.functions)
    groups: Iterable[Collection[str]] = getattr(one, "only_for", ())
    return not any(counted.operators.isdisjoint(operators) for operators in groups)


def passes_for(options: Options, model: ir.Model) -> list[ir.passes.InPlacePass]:
    """Return the passes that do what the options ask of a model, in the order of the work."""
    if options.tensor_io:
        passes = _with_tensor_io(options, model)
    else:
        passes = _for_maps(options, options.promises)
    if "If" in options.lacks:
        passes.append(SelectBranchesPass())
    if options.row.old_forms:
        passes.append(OldFormsPass())
    if options.row.kernels:
        passes += passes_for_device(options.row.kernels, model)
    # Every model is verified on onnxruntime, whatever its target; a portable one is for all.
    runtimes = {"onnxruntime", options.row.backend}
    if options.row.name == "portable":
        runtimes |= {row.runtime for row in DEFECTS}
    converting = [] if options.opset is None else [ConvertOpsetPass(options.opset)]
    if options.strategy != "expand" and (model.producer_name or "").lower() == "pytorch":
        unbinding = PyTorchUnbindPass()
        passes = [unbinding, *passes, PyTorchRanksPass(unbinding)]
    authored, typing = Authored(model), KeptTyping()
    for_device = bool(options.row.kernels)
    # Others refuse an If whose branches yield different sizes, or are wrong in it.
    asks = options.row.backend == "onnxruntime" and "If" not in options.lacks and not for_device
    if options.row.backend == "onnxruntime" and not for_device:
        passes.append(LoopConditionsPass(authored))
    passes.append(EliminateCommonSubexpressionsPass(authored, for_device=for_device))
    if not options.row.kernels:
        passes.append(OneBranchPass(authored, typing))
    passes += [
        LoopStatesPass(authored, typing),
        ElementSymbolsPass(authored, typing),
        SidestepDefectsPass(runtimes, authored, typing, asks=asks),
    ]
    if options.row.kernels:
        passes += passes_behind_all(options.row.kernels, model)
    if options.row.backend == "onnxruntime":
        passes += [NearWeightsPass(authored), NearConstantsPass(authored)]
    return [*converting, *passes]


def _with_tensor_io(options: Options, model: ir.Model) -> list[ir.passes.InPlacePass]:
    # What is promised of the elements of a sequence does not hold of the tensor in its place.
    rest = options.promises.without_shapes(sequence_inputs(model))
    passes = _for_maps(options, rest)
    # Around what fuses and expands SequenceMaps; Loops and Scans were fused before.
    maps = [i for i, one in enumerate(passes) if isinstance(one, _MAP_PASSES)]
    start, end = maps[-2:][0], maps[-1]
    first = TensorOutputsPass(rest, is_first=True)
    # What maps yield as rows and sizes is a sequence only until the map of it is expanded.
    passes.insert(end, TensorOutputsPass(rest, is_first=True, first=first))
    end += 1
    passes.insert(end + 1, TensorOutputsPass(rest, first=first))
    passes.insert(start, first)
    return [
        passes[0],
        TensorInputsPass(options.promises, frozenset(options.padded)),
        *passes[1:],
        FinishTensorIoPass(),
    ]


def _plain_in_loops() -> ExpandSequenceMapPass:
    """Return the pass for a device that has no kernel to split a sequence with.

    A question to all samples, and what splits a tensor, copy in each iteration around a map.
    """
    detail = "for a device, a plain loop in a loop copies the least"
    return ExpandSequenceMapPass("plain", reason=Reason(Code.COST, detail=detail), in_loops=True)


def _unrolled_loops(lacks: Collection[str], promises: Promises) -> UnrollSequenceMapPass:
    """Return the pass for the Loops that a target lacks, or else for those of few nodes."""
    if lacks:
        return UnrollSequenceMapPass(loops=lacks, promises=promises)
    return UnrollSequenceMapPass(loops=("Loop", "Scan"), few=True, promises=promises)


def _for_maps(options: Options, promises: Promises) -> list[ir.passes.InPlacePass]:
    if options.strategy == "expand":
        reason = Reason(Code.STRATEGY)
        return [
            InlineMapFunctionsPass(),
            ExpandSequenceMapPass(reason=reason, lacks=options.lacks),
        ]
    lacks, fusing, kernels = options.lacks, options.fusing(promises), options.row.kernels
    return [
        InlineMapFunctionsPass(),
        FoldBranchesPass(),
        EliminateSequencesPass(in_bodies=True),
        FixedListsPass(),
        FuseSequenceMapPass(fusing, loops=True),
        _unrolled_loops(lacks, promises),
        SimplifyBodiesPass(keeps_views=fusing.takes_flat),
        UnrollSequenceMapPass(),
        *([_plain_in_loops()] if kernels and splits_on_host(kernels) else []),
        FuseSequenceMapPass(fusing),
        _unrolled_loops(lacks, promises),
        UnrollSequenceMapPass(is_fused=True),
        ExpandSequenceMapPass(lacks=lacks),
        EliminateSequencesPass(
            required=options.sequence_free, keeps_cuts=fusing.auto and not fusing.for_device
        ),
    ]
