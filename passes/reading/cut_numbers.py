"""Whole numbers that a body cuts out of a vector which may lack them: offsets, or data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import onnx_ir as ir

from passes.carried.pattern import dependent_values
from passes.decisions import Code
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import operand
from passes.numbers.evaluate import FOLLOWS_DOUBTFUL, not_followed
from passes.numbers.integer_reads import INTEGERS
from passes.reading.not_a_map import DoubtfulReadError, NotAMapError
from passes.typing.value_types import Typing

__all__ = ["as_offsets_or_data", "check_bounds"]

Reading = TypeVar("Reading")


def as_offsets_or_data(read: Callable[[], Reading]) -> Reading:
    """Read a Loop or Scan with such numbers followed, or as data where it may lack them.

    Args:
        read: Reads it.

    Raises:
        NotAMapError: It is a map in neither way; why it is none in the first.
    """
    try:
        return read()
    except DoubtfulReadError as error:
        with not_followed():
            try:
                return read()
            except NotAMapError:
                raise error from None


def check_bounds(body: ir.Graph, typing: Typing) -> None:
    """Check that nothing is cut by numbers that were cut out of a vector as data.

    Raises:
        NotAMapError: Something is: each iteration may cut as much as it will.
    """
    if FOLLOWS_DOUBTFUL.get():
        return
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
