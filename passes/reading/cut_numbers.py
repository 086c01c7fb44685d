"""Whole numbers that a body cuts out of a vector which may lack them, where they are no data."""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.pattern import dependent_values
from passes.decisions import Code
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import operand
from passes.numbers.integer_reads import INTEGERS
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["check_bounds"]


def check_bounds(body: ir.Graph, typing: Typing) -> None:
    """Check that nothing is cut by numbers that were cut out of a vector.

    Raises:
        NotAMapError: Something is: each iteration may cut as much as it will.
    """
    slices = [node for node in walk_nodes(body) if is_operator(node, "Slice")]
    numbers = {
        node.outputs[0]
        for node in slices
        if typing.dtype(operand(node, 0)) in INTEGERS and typing.rank(operand(node, 0)) == 1
    }
    numbers |= dependent_values(body, *numbers)
    for node in slices:
        if not numbers.isdisjoint(node.inputs[1:3]):
            raise NotAMapError(Code.RAGGED, "what it is cut by may not be there", node)
