"""The numbers of samples from which on a rewritten model takes another form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from passes.graph.graphs import all_graphs, constant_value
from rewriter.model_files import models

__all__ = ["lengths_beyond"]


def lengths_beyond(model: Any) -> tuple[int, ...]:
    """Return lengths that are just large enough for the forms of a model that wait for them.

    An If that asks whether there are more than ``k`` samples, alone or beside other things, yields
    ``k + 1``. Of several numbers the smallest and the largest are enough.

    Args:
        model: The model (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
    """
    found = {
        number + 1
        for graph in all_graphs(models.take(model).model)
        for node in graph
        if node.op_type == "If"
        for number in _asked(node.inputs[0])
    }
    return tuple(sorted({min(found), max(found)})) if found else ()


def _asked(condition: ir.Value | None) -> Iterator[int]:
    """Yield the numbers that a condition compares with."""
    test = None if condition is None else condition.producer()
    if test is not None and test.op_type == "And":
        for operand in test.inputs:
            yield from _asked(operand)
    if test is None or test.op_type != "Greater":
        return
    number = constant_value(test.inputs[1])
    if number is not None and not number.ndim and number.dtype.kind == "i" and number > 0:
        yield int(number)
