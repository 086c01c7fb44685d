"""Which input has the lengths that an output has."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator
from passes.graph.made import operand
from passes.tensors.io import TensorIo

__all__ = ["BRIDGE", "source_of"]

BRIDGE = "triton"
"""What the nodes are called by that make lengths of the shapes that Triton feeds."""
# What hands on the numbers that it reads, in their order.
_SAME_NUMBERS = {"Cast", "Identity", "Reshape"}
# A Slice of a vector, from a start to an end.
_BOUNDS = 3


def source_of(lengths: ir.Value | None, passed: TensorIo) -> str | None:
    """Return the input whose lengths an output has, None where that is not proven."""
    sources = {one.lengths: name for name, one in passed.inputs.items() if one.lengths}
    value = lengths
    while value is not None and value.name not in sources:
        maker = value.producer()
        if maker is None:
            return None
        # The bridge: the first column of the shapes.
        hands_on = maker.op_type in _SAME_NUMBERS or maker.name == f"{BRIDGE}/Gather"
        value = maker.inputs[0] if hands_on or _is_whole(maker, passed) else None
    return None if value is None else sources[str(value.name)]


def _is_whole(cut: ir.Node, passed: TensorIo) -> bool:
    """Whether a node cuts lengths to the number of samples, which is that of the batch."""
    if cut.op_type != "Slice" or len(cut.inputs) != _BOUNDS:
        return False
    start, count = constant_value(cut.inputs[1]), operand(cut, 2).producer()
    return (
        start is not None
        and not start.any()
        and is_operator(count, "Shape")
        and source_of(count.inputs[0], passed) is not None
    )
