"""The work of heavy operators, such as products of matrices, by their dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable

import onnx_ir as ir

from passes.fusing.measured_costs import FLOPS, HEAVY
from passes.graph.made import optional_operand
from passes.typing import Typing

__all__ = ["work_of"]


def work_of(nodes: Iterable[ir.Node], typing: Typing, *, unknown: float = 0.0) -> float:
    """Return the microseconds that the heavy operators of a body take for one sample.

    Args:
        nodes: The nodes of the body.
        typing: Knows their dimensions.
        unknown: How many multiplications one has if not all its dimensions are known.
    """
    return sum(_flops(node, typing, unknown) for node in nodes) / FLOPS


def _flops(node: ir.Node, typing: Typing, unknown: float) -> float:
    """Return the multiplications of a heavy node: its result times what each number sums over.

    An open dimension counts as 1: it is that at least.
    """
    if node.op_type not in HEAVY:
        return 0.0
    result = typing.dims(node.outputs[0])
    weights = optional_operand(node, 1)
    size = None if weights is None else typing.static_dims(weights)
    if result is None or not size:
        return unknown
    summed = math.prod(size[1:]) if node.op_type.startswith("Conv") else size[0]
    return 2.0 * math.prod(dim for dim in result if isinstance(dim, int)) * summed
