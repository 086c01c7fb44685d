"""Which input has the lengths, or the sizes, that an output has."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand, operands
from passes.tensors.io import TensorIo

__all__ = ["BRIDGE", "source_of"]

BRIDGE = "triton"
"""What the nodes are called by that make lengths of the shapes that Triton feeds."""
_Columns = list[tuple[str, int]]
"""For each column of some sizes an input, and which column of its sizes it is."""
# What hands on the numbers that it reads, in their order.
_SAME_NUMBERS = {"Cast", "Identity"}
# The same, of the numbers along one axis.
_SAME_COLUMN = {"Reshape", "Squeeze", "Unsqueeze"}
# A Slice of a vector, from a start to an end.
_BOUNDS = 3


def source_of(lengths: ir.Value | None, passed: TensorIo) -> str | None:
    """Return the input whose lengths or sizes an output has, None where that is not proven."""
    columns = None if lengths is None else _columns(lengths, passed)
    if not columns:
        return None
    name, _ = columns[0]
    return name if columns == _of_input(name, passed) else None


def _of_input(name: str, passed: TensorIo) -> _Columns:
    first, behind = passed.inputs[name].span
    return [(name, column) for column in range(behind - first)]


def _columns(value: ir.Value, passed: TensorIo) -> _Columns | None:
    sources = {one.lengths: name for name, one in passed.inputs.items() if one.lengths}
    if value.name in sources:
        return _of_input(sources[value.name], passed)
    maker = value.producer()
    if maker is None:
        return None
    if is_operator(maker, "Concat"):
        parts = [_columns(part, passed) for part in operands(maker)]
        known = [part for part in parts if part is not None]
        is_beside = len(known) == len(parts) and maker.attributes.get_int("axis", 0) == 1
        return [column for part in known for column in part] if is_beside else None
    read = maker.inputs[0] if maker.inputs else None
    columns = None if read is None else _columns(read, passed)
    if columns is None:
        return None
    # The bridge reads those columns of the shapes that the lengths or sizes tell.
    hands_on = maker.op_type in _SAME_NUMBERS or maker.name == f"{BRIDGE}/Gather"
    if hands_on or _is_whole(maker, passed):
        return columns
    if maker.op_type in _SAME_COLUMN:
        return columns if len(columns) == 1 else None
    return _picked(maker, columns)


def _picked(gather: ir.Node, columns: _Columns) -> _Columns | None:
    """Return the columns that a Gather takes, None where only the run tells which."""
    places = constant_value(gather.inputs[1]) if is_operator(gather, "Gather") else None
    if places is None or gather.attributes.get_int("axis", 0) != 1:
        return None
    return [columns[int(place)] for place in places.reshape(-1)]


def _is_whole(cut: ir.Node, passed: TensorIo) -> bool:
    """Whether a node cuts lengths to the number of samples, which is that of the batch."""
    if cut.op_type != "Slice" or len(cut.inputs) != _BOUNDS:
        return False
    start, count = constant_value(cut.inputs[1]), operand(cut, 2).producer()
    return (
        start is not None
        and not start.any()
        and is_operator(count, "Shape")
        and _columns(operand(count, 0), passed) is not None
    )
