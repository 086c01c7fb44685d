"""Rows of a carried tensor of which the shape alone is asked, where reading them could fail.

PyTorch writes ``if c: s[i] = v`` with ``Shape(s[i])``. Outside of the branch, ``i`` may be no row
of ``s``; zeros of the shape of a row tell the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added
from passes.graph.graphs import is_default_domain
from passes.reading.facts import skip_identities
from passes.typing.value_types import Typing

__all__ = ["rows_for_shape"]


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
        The nodes that compute one, the row last, and what takes the place of each row.
    """
    dtype = typing.dtype(initial)
    found = [n for graph in branches for n in graph if _reads_row(n, inner, typing)]
    if dtype is None or not found:
        return [], {}
    ends = [_numbers(1), _numbers(int(np.iinfo(np.int64).max))]
    shape = added("Shape", [inner])
    dims = added("Slice", [shape.outputs[0], *(node.outputs[0] for node in ends)])
    zero = ir.tensor(np.zeros([1], dtype.numpy()))
    row = added("ConstantOfShape", [dims.outputs[0]], {"value": zero})
    typing.set(row.outputs[0], typing[found[0].outputs[0]])
    instead = {node.outputs[0]: row.outputs[0] for node in found}
    return [*ends, shape, dims, row], instead


def _reads_row(node: ir.Node, inner: ir.Value, typing: Typing) -> bool:
    """Whether a node reads one row of a tensor."""
    if node.op_type != "Gather" or not is_default_domain(node) or None in node.inputs:
        return False
    whole, index = node.inputs
    assert whole is not None
    assert index is not None
    is_first = (node.attributes.get_int("axis", 0) or 0) == 0
    return is_first and skip_identities(whole) is inner and typing.rank(index) == 0


def _numbers(*values: int) -> ir.Node:
    return added("Constant", [], {"value": ir.tensor(np.array(values, np.int64))})
