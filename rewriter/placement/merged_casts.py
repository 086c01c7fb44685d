"""Finds the Casts that onnxruntime drops when nodes have been placed: other Casts follow them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import operand

__all__ = ["merged_casts"]


def merged_casts(nodes: Iterable[ir.Node], placed: Collection[ir.Node]) -> set[ir.Node]:
    """Return the Casts whose readers are all Casts on the same side, which read past them.

    A Cast from int64 to int32 stays where int64 comes behind it: it takes the upper half away.

    Args:
        nodes: The nodes of a graph, values typed.
        placed: Those of them that are on the device.
    """
    return {node for node in nodes if is_operator(node, "Cast") and _is_merged(node, placed)}


def _is_merged(cast: ir.Node, placed: Collection[ir.Node]) -> bool:
    result = cast.outputs[0]
    readers = result.consumers()
    if not readers or result.is_graph_output():
        return False
    if not all(_follows(one, cast, placed) for one in readers):
        return False
    given, between = operand(cast, 0).dtype, result.dtype
    behind = [one.outputs[0].dtype for one in readers]
    if _holds(between, given):
        return True
    return all(one != ir.DataType.BOOL and _holds(between, one) for one in behind)


def _follows(reader: ir.Node, cast: ir.Node, placed: Collection[ir.Node]) -> bool:
    is_cast = is_operator(reader, "Cast") and reader.graph is cast.graph
    return is_cast and (reader in placed) == (cast in placed)


def _holds(dtype: ir.DataType | None, other: ir.DataType | None) -> bool:
    """Return whether a type has each value of another one."""
    if dtype is None or other is None:
        return False
    if dtype.is_floating_point() and other in (ir.DataType.INT64, ir.DataType.UINT64):
        return False
    return np.can_cast(other.numpy(), dtype.numpy())
