"""Finds samples whose shape is lost where a Loop in front of the map runs no iteration.

A Loop of no iterations collects rows of size 0 along each dimension that its types leave open:
`(0, 0)`, where the map behind it adds a value of 3 numbers to each row. The Loop that the map was
runs no iteration either; its batched operators would fail.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.layouts import Layout
from passes.fusing.fused_body import FusedBody
from passes.graph.graphs import constant_value, is_operator, reads_of, walk_nodes
from passes.graph.made import made_by, only_number, operand, operands
from passes.raising.originals import original_of
from passes.typing import Typing

__all__ = ["joins_rows_of_loops", "yields_rows_of_loops"]


def joins_rows_of_loops(fused: FusedBody, typing: Typing) -> bool:
    """Whether a batched node joins other values to rows that a Loop in front of the map collects.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        typing: The proven typing.
    """
    read = [operands(node) for stage in fused.walk.stages for node in stage.nodes]
    return _follow_loops(fused, [v for values in read if len(values) > 1 for v in values], typing)


def yields_rows_of_loops(fused: FusedBody, typing: Typing) -> bool:
    """Whether a result of a batched body is rows that a Loop in front of the map collects."""
    outputs = fused.site.body.outputs
    results = [fused.walk.read(outputs[o]) for o in fused.site.used_outputs()]
    values = [x.value for x in results if x.layout is not Layout.PER_SAMPLE]
    return _follow_loops(fused, values, typing)


def _follow_loops(
    fused: FusedBody,
    values: Sequence[ir.Value],
    typing: Typing,
    running: frozenset[ir.Node] = frozenset(),
) -> bool:
    """Whether values of open shape follow from what a Loop in front of the map collects.

    Args:
        fused: The body.
        values: The values.
        typing: The proven typing.
        running: Nodes that run an iteration wherever the values are read.
    """
    own = {node for stage in fused.walk.stages for node in stage.nodes}
    pending, seen = list(values), set[ir.Value]()
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is None or node in running or value in seen or _is_known(value, typing):
            continue
        seen.add(value)
        if node not in own and _collects(node):
            return True
        counted = _rows_asked(node)
        if counted is not None:
            _, chosen, other = operands(node)
            if _follow_loops(fused, [chosen], typing, running | {counted}):
                return True
            pending.append(other)
            continue
        like = _shaped_like(node)
        pending += reads_of(node) if like is None else [like]
    return False


def _rows_asked(node: ir.Node) -> ir.Node | None:
    """Return what makes the rows that a Where asks for, whether there are any; None for others."""
    asked = made_by(operand(node, 0), "Greater") if is_operator(node, "Where") else None
    if asked is None or only_number(operand(asked, 1)) != 0:
        return None
    count, cut = operand(asked, 0), made_by(operand(asked, 0), "Slice")  # below opset 15
    shape = made_by(count if cut is None else operand(cut, 0), "Shape")
    if shape is None:
        return None
    bounds: list[float | None] = [shape.attributes.get_int(name) for name in ("start", "end")]
    if cut is not None:
        bounds += [only_number(bound) for bound in operands(cut)[1:]]
    is_first = bounds == ([0, 1] if cut is None else [None, None, 0, 1])
    return operand(shape, 0).producer() if is_first else None


def _shaped_like(node: ir.Node) -> ir.Value | None:
    """Return the value that a Reshape takes all sizes but the first of, None if there is none."""
    if not is_operator(node, "Reshape") or node.attributes.get_int("allowzero", 0) != 0:
        return None
    joined = made_by(operand(node, 1), "Concat")
    parts = [] if joined is None else operands(joined)
    first = constant_value(parts[0]) if len(parts) == 2 else None
    if first is None or first.tolist() != [0]:
        return None
    asked = made_by(parts[1], "Shape")
    return None if asked is None or asked.attributes.keys() else operand(asked, 0)


def _is_known(value: ir.Value, typing: Typing) -> bool:
    """Whether all sizes of a value but the first are numbers."""
    dims = typing.dims(value)
    return dims is not None and all(isinstance(dim, int) for dim in dims[1:])


def _collects(node: ir.Node) -> bool:
    """Whether a node is a Loop, may become one again, or holds one."""
    if original_of(node) is not None:
        return True
    return any(is_operator(inner, "Loop") for inner in walk_nodes([node]))
