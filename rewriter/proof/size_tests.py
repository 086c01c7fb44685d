"""The numbers of samples from which on a rewritten model takes another form."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from passes.graph.graphs import all_graphs, constant_value
from rewriter.model_files import models

__all__ = ["lengths_beyond"]


def lengths_beyond(model: Any) -> tuple[int, ...]:
    """Return lengths that are just large enough for the forms of a model that wait for them.

    An If that asks whether there are more than ``k`` samples yields ``k + 1``. Of several numbers
    the smallest and the largest are enough.

    Args:
        model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
    """
    found = {
        number + 1
        for graph in all_graphs(models.take(model).model)
        for node in graph
        if node.op_type == "If" and (number := _least(node)) is not None
    }
    return tuple(sorted({min(found), max(found)})) if found else ()


def _least(node: ir.Node) -> int | None:
    """Return the number that the condition of an If compares with; None if it does not."""
    condition = node.inputs[0]
    test = None if condition is None else condition.producer()
    if test is None or test.op_type != "Greater":
        return None
    number = constant_value(test.inputs[1])
    if number is None or number.ndim or number.dtype.kind != "i" or number <= 0:
        return None
    return int(number)
