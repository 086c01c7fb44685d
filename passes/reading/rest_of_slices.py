"""What a Slice of several axes cuts off, behind the element that it reads along one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.made import made_by, operand, operands
from passes.graph.node_copies import copy_of
from passes.numbers.evaluate import Evaluator
from passes.numbers.slice_bounds import AxisCut

__all__ = ["cut_rest"]


def cut_rest(
    builder: Builder,
    element: ir.Value,
    node: ir.Node,
    cuts: Sequence[AxisCut],
    values: Mapping[ir.Value, ir.Value | None],
    evaluator: Evaluator,
) -> ir.Value:
    """Record what is left of an element when the other axes of a Slice are cut, too.

    Args:
        builder: Writes the body of the map.
        element: The element, with all axes.
        node: The Slice.
        cuts: What it names of the other axes.
        values: What stands for the values of the body as given.
        evaluator: Knows numbers.
    """
    places = [cut.place for cut in cuts]
    bounds = [_entries(builder, operand(node, at), places, values, evaluator) for at in (1, 2)]
    bounds.append(builder.ints(*(cut.axis for cut in cuts)))
    if any(cut.step != 1 for cut in cuts):
        bounds.append(builder.ints(*(cut.step for cut in cuts)))
    return builder.op("Slice", [element, *bounds])


def _entries(
    builder: Builder,
    vector: ir.Value,
    places: Sequence[int],
    values: Mapping[ir.Value, ir.Value | None],
    evaluator: Evaluator,
) -> ir.Value:
    """Record some entries of a vector; of a Concat of numbers these alone are read.

    They are int64, as the axes that are written beside them are.
    """
    joined = made_by(vector, "Concat")
    parts = [] if joined is None else operands(joined)
    if not parts or any(evaluator.dims(part) != (1,) for part in parts):
        picked = [copy_of(values, vector), builder.ints(*places)]
        made = builder.op("Gather", picked, {"axis": 0})
    else:
        entries = [copy_of(values, parts[place]) for place in places]
        made = entries[0] if len(entries) == 1 else builder.op("Concat", entries, {"axis": 0})
    if evaluator.dtype(vector) == ir.DataType.INT64:
        return made
    return builder.op("Cast", [made], {"to": int(ir.DataType.INT64)})
