"""Rows of a carried tensor that are read for their shape alone, where reading could fail.

PyTorch writes ``if c: s[i] = v`` with ``Shape(s[i])``. Outside of the branch, ``i`` may be no row
of ``s``; zeros of the shape of a row tell the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added, added_integers
from passes.graph.builder import END, Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operands, skip_identities
from passes.typing.value_types import Typing

__all__ = ["as_rows_of", "rows_for_shape"]


def as_rows_of(builder: Builder, tensor: ir.Value, rows: ir.Value, named: int) -> ir.Value:
    """Record rows with the dimensions of the rows of a tensor, which none may not tell.

    Args:
        builder: Records it.
        tensor: What the rows are written to.
        rows: The rows, ``[m, ..]``.
        named: Along how many axes the place of a row is named.
    """
    sizes = [builder.shape(rows, 0, 1), builder.shape(tensor, named)]
    shape = builder.op("Concat", sizes, {"axis": 0})
    return builder.op("Reshape", [rows, shape], {"allowzero": 1})


def rows_for_shape(
    branches: Sequence[ir.Graph], inner: ir.Value, initial: ir.Value, typing: Typing
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Return what stands for the rows that branches read of a carried tensor, for their shape.

    Args:
        branches: The branches.
        inner: The carried tensor; nothing that is kept of the branches depends on its elements.
        initial: What it is in front of the first iteration.
        typing: The proven typing; it gains the rows.

    Returns:
        The nodes that compute them, and what takes the place of each row, and of a row of such.
    """
    dtype = typing.dtype(initial)
    depths = _depths(branches, inner, typing)
    if dtype is None or not depths:
        return [], {}
    end, shape = added_integers(END), added("Shape", [inner])
    nodes, rows = [end, shape], {}
    for value, depth in depths.items():
        if depth not in rows:
            start = added_integers(depth)
            bounds = [start.outputs[0], end.outputs[0]]
            dims = added("Slice", [shape.outputs[0], *bounds])
            zero = ir.tensor(np.zeros([1], dtype.numpy()))
            row = added("ConstantOfShape", [dims.outputs[0]], {"value": zero})
            typing.set(row.outputs[0], typing[value])
            nodes += [start, dims, row]
            rows[depth] = row.outputs[0]
    return nodes, {value: rows[depth] for value, depth in depths.items()}


def _depths(branches: Sequence[ir.Graph], inner: ir.Value, typing: Typing) -> dict[ir.Value, int]:
    """Return the rows that are read of a tensor, and how many axes each has less than it."""
    found = {inner: 0}
    for node in (node for graph in branches for node in graph):
        if not is_operator(node, "Gather"):
            continue
        whole, index = map(skip_identities, operands(node))
        is_first = node.attributes.get_int("axis", 0) == 0
        if is_first and whole in found and typing.rank(index) == 0:
            found[node.outputs[0]] = found[whole] + 1
    del found[inner]
    return found
