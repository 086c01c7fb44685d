"""Which nodes read flat samples by the number of each row, which takes more than all else.

A mask ``[H, W]`` that meets images ``[3, H, W]`` is read for each of their numbers, and images
``[H, W, 3]`` that end as ``[3, H, W]`` are moved number by number.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.batching.walk import BatchInterpreter

__all__ = ["FREE", "MOVES", "is_out_of_order", "reads_by_number", "rows_by_number"]

MOVES = frozenset({"CenterCropPad", "Pad", "Slice"})
"""What only says which places are read."""

FREE = frozenset({"Constant", "Identity", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"})
"""What reads no row."""

_COMPOSED = MOVES | {"Gather", "Resize", "Split"}
_REGRIDDED = frozenset({"Flatten", "Reshape"})


def reads_by_number(walk: BatchInterpreter, node: ir.Node) -> bool:
    """Whether the rows of a node's result are read one by one, by tables as long as the rows.

    Args:
        walk: What became of the nodes of a body.
        node: One of them.
    """
    made = walk.read(node.outputs[0]).flat
    if made is None:
        return False
    if node.op_type in _COMPOSED and not made.is_plain:
        return not made.has_one_shape and _is_read(node.outputs[0])
    given = [walk.read(value) for value in node.inputs if value is not None]
    if node.op_type in _REGRIDDED:
        return any(map(is_out_of_order, given))
    return any(x.is_packed or _lies_otherwise(x, made) for x in given)


def _lies_otherwise(x: Batched, made: FlatSamples) -> bool:
    return x.flat is not None and x.flat.is_plain and not x.flat.grid.equal(made.grid)


def _is_read(value: ir.Value) -> bool:
    """Whether something reads the rows of a value, and not only says which of them are read."""
    if value.is_graph_output():
        return True
    readers = [node for node, _ in value.uses()]
    return any(
        node.op_type not in _COMPOSED | FREE
        or (node.op_type in FREE and any(map(_is_read, node.outputs)))
        for node in readers
    )


def is_out_of_order(x: Batched) -> bool:
    """Whether samples of several shapes lie in memory in another order than that of their axes."""
    flat = x.flat
    return flat is not None and not flat.has_one_shape and flat.order != tuple(sorted(flat.order))


def rows_by_number(walk: BatchInterpreter, node: ir.Node, value: ir.Value) -> Batched | None:
    """Return the samples whose rows are read by number; None where it is number by number.

    Args:
        walk: What became of the nodes of a body.
        node: One that reads by number.
        value: The flat value that it reads.
    """
    made, given = walk.read(node.outputs[0]), walk.read(value)
    assert made.flat is not None and given.flat is not None
    return None if made.flat.grid.rank < given.flat.grid.rank else made
