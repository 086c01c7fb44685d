"""The raised form of a model, to be read."""

from __future__ import annotations

import math
from typing import Any

import onnx.printer
import onnx_ir as ir

from passes.ceilings import clear_ceilings, mark_ceilings, safer_forms
from passes.raising import RaiseLoopsPass
from passes.runtimes.convert_opset import ConvertOpsetPass
from rewriter.model_files.models import AnyModel, take
from rewriter.model_files.protos import all_graphs, to_proto
from rewriter.options import Options
from rewriter.proof.blaming import Ceilings, Forms
from rewriter.proof.faults import with_safer_forms

__all__ = ["raised_text"]

_LARGEST_PRINTED = 64


def raised_text(model: AnyModel, **asked: Any) -> tuple[str, dict[str, str]]:
    """Return a model as text, with its Loops and Scans that are maps raised to ``seqmap::Map``.

    Args:
        model: A model, as `rewriter.rewrite` takes it; it is not changed.
        asked: The options of `rewriter.rewrite`; those that are promises count.

    Returns:
        The text, without the numbers of large weights; and for each Loop and Scan that was
        raised its path and how it spells a map.
    """
    options = Options(**asked)

    def raised(limits: Ceilings) -> tuple[ir.Model, dict[str, str]]:
        taken = take(model).model
        mark_ceilings(taken, limits)
        options.check_promises(taken)
        if options.opset is not None:
            ConvertOpsetPass(options.opset)(taken)
        raising = RaiseLoopsPass(options.promises)
        raising(taken)
        clear_ceilings(taken)
        return taken, raising.raised

    def forms() -> Forms:
        return {path: safer[-1:] for path, safer in safer_forms(take(model).model).items()}

    # A Loop on which the pass fails stays as it is, and a warning says so.
    (new, spellings), _, _ = with_safer_forms(raised, {}, forms)
    proto = to_proto(new)
    for graph in all_graphs(proto):
        shown = [t for t in graph.initializer if math.prod(t.dims) <= _LARGEST_PRINTED]
        del graph.initializer[:]
        graph.initializer.extend(shown)
    return onnx.printer.to_text(proto), spellings
