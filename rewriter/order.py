"""The order of work: which passes a rewrite runs, and in which order."""

from __future__ import annotations

import onnx_ir as ir

from passes.convert_opset import ConvertOpsetPass
from passes.decisions import Code, Reason
from passes.device_forms import DeviceFormsPass
from passes.eliminate import EliminateSequencesPass
from passes.expand import ExpandSequenceMapPass
from passes.fold_branches import FoldBranchesPass
from passes.fuse import FuseSequenceMapPass
from passes.inline import InlineMapFunctionsPass
from passes.old_forms import OldFormsPass
from passes.promises import Promises
from passes.runtimes import Authored, NearWeightsPass, SidestepDefectsPass
from passes.runtimes.table import DEFECTS
from passes.select_branches import SelectBranchesPass
from passes.simplify import SimplifyBodiesPass
from passes.tensors.finish import FinishTensorIoPass
from passes.tensors.inputs import TensorInputsPass
from passes.tensors.outputs import TensorOutputsPass
from passes.unroll import UnrollSequenceMapPass
from rewriter.options import Options, sequence_inputs
from rewriter.placement.device_kernels import kernels_of

__all__ = ["passes_for"]

_MAP_PASSES = (FuseSequenceMapPass, ExpandSequenceMapPass)


def passes_for(options: Options, model: ir.Model) -> list[ir.passes.InPlacePass]:
    """Return the passes that do what the options ask of a model, the first first."""
    if options.tensor_io:
        passes = _with_tensor_io(options, model)
    else:
        passes = _for_maps(options, options.promises)
    if "If" in options.lacks:
        passes.append(SelectBranchesPass())
    if options.row.old_forms:
        passes.append(OldFormsPass())
    if options.row.kernels:
        passes.append(DeviceFormsPass(kernels_of(options.row.kernels, model)))
    # Every model is verified on onnxruntime, whatever its target; a portable one is for all.
    runtimes = {"onnxruntime", options.row.backend}
    if options.row.name == "portable":
        runtimes |= {row.runtime for row in DEFECTS}
    converting = [] if options.opset is None else [ConvertOpsetPass(options.opset)]
    authored = Authored(model)
    passes.append(SidestepDefectsPass(runtimes, authored))
    if options.row.backend == "onnxruntime":
        passes.append(NearWeightsPass(authored))
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
    return [passes[0], TensorInputsPass(options.promises), *passes[1:], FinishTensorIoPass()]


def _for_maps(options: Options, promises: Promises) -> list[ir.passes.InPlacePass]:
    if options.strategy == "expand":
        reason = Reason(Code.STRATEGY)
        return [
            InlineMapFunctionsPass(),
            ExpandSequenceMapPass(reason=reason, lacks=options.lacks),
        ]
    lacks, fusing = options.lacks, options.fusing(promises)
    return [
        InlineMapFunctionsPass(),
        FoldBranchesPass(),
        FuseSequenceMapPass(fusing, loops=True),
        *([UnrollSequenceMapPass(loops=lacks, promises=promises)] if lacks else []),
        SimplifyBodiesPass(keeps_views=bool(lacks) or not fusing.auto),
        UnrollSequenceMapPass(),
        FuseSequenceMapPass(fusing),
        UnrollSequenceMapPass(is_fused=True),
        ExpandSequenceMapPass(lacks=lacks),
        EliminateSequencesPass(required=options.sequence_free),
    ]
