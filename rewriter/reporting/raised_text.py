"""The raised form of a model, to be read."""

from __future__ import annotations

import math
from typing import Any

import onnx.printer

from passes.convert_opset import ConvertOpsetPass
from passes.raising import RaiseLoopsPass
from rewriter.model_files.models import AnyModel, take
from rewriter.model_files.protos import all_graphs, to_proto
from rewriter.options import Options

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
    options, taken = Options(**asked), take(model).model
    options.check_promises(taken)
    if options.opset is not None:
        ConvertOpsetPass(options.opset)(taken)
    raising = RaiseLoopsPass(options.promises)
    raising(taken)
    proto = to_proto(taken)
    for graph in all_graphs(proto):
        shown = [t for t in graph.initializer if math.prod(t.dims) <= _LARGEST_PRINTED]
        del graph.initializer[:]
        graph.initializer.extend(shown)
    return onnx.printer.to_text(proto), raising.raised
