"""What is said of a carried tensor that an iteration writes to, and why that is no pattern."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import made_by, operand, skip_identities
from passes.reading.iterations import Carried

__all__ = ["BEHIND", "name_of_carried", "why_written"]

_SCATTERS = ("ScatterND", "ScatterElements")
_SHAPES = ("Shape", "Size")
_PARTS = (
    "Gather",
    "GatherElements",
    "GatherND",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Squeeze",
    "Unsqueeze",
)
"""Operators whose result holds entries of what they read."""

_IN_FRONT = "if it reads only what stood there in front of the loop, read that tensor"
BEHIND = "if no two places are equal, collect them, and write behind the loop by one ScatterND"
"""What helps where iterations only write."""


def name_of_carried(carried: Carried) -> str:
    """Return what a user calls a carried value; exporters number those of a body."""
    values = (carried.inner, skip_identities(carried.initial), carried.result)
    names = [value.name for value in values if value.name]
    return next((name for name in names if not name.isdigit()), names[0] if names else "")


def why_written(carried: Carried) -> tuple[str, str] | None:
    """Say why writes to a tensor stay in a Loop.

    Args:
        carried: The tensor.

    Returns:
        Why, and what can be done about it; None where it is not written by index alone.
    """
    name, tensors = name_of_carried(carried), [carried.next]
    while (node := made_by(tensors[-1], *_SCATTERS)) is not None:
        tensors.append(operand(node, 0))
    if len(tensors) == 1 or skip_identities(tensors[-1]) is not carried.inner:
        return None
    writes = len(tensors) - 1
    read = _reader(map(skip_identities, tensors))
    if read is not None:
        detail = f"an iteration writes to '{name}', and reads it by {read.op_type}"
        return f"{detail}: nothing proves that it reads no place that another one wrote", _IN_FRONT
    ways = "at one place after another" if writes == 1 else f"{writes} times"
    detail = f"an iteration writes to '{name}' {ways}"
    return f"{detail}: nothing proves that no other one writes to these places", BEHIND


def _reader(tensors: Iterable[ir.Value]) -> ir.Node | None:
    """Return a node that reads elements of some tensors, and does more than to write to them."""
    waiting: list[tuple[ir.Value, ir.Node | None]] = [(value, None) for value in tensors]
    seen: set[ir.Value] = set()
    while waiting:
        value, first = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if first is not None and value.is_graph_output():
            return first
        for node, at in value.uses():
            is_write = first is None and at == 0 and is_operator(node, _SCATTERS)
            if is_write or is_operator(node, _SHAPES):
                continue
            if at or not is_operator(node, _PARTS):
                return first or node
            is_copy = node.op_type == "Identity"
            waiting.append((node.outputs[0], first if is_copy else first or node))
    return None
