"""Lets nodes that could fail run without samples, by operands that cannot fail there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from passes.batching.absent_rows import (
    put_row_of_zeros,
    put_zeros_behind,
    reads_one_place,
    reduced_along,
)
from passes.batching.failing import FARTHEST
from passes.fusing.fused_body import FusedBody
from passes.graph.builder import Builder
from passes.graph.graphs import constant_value, is_operator, reads_of
from passes.graph.made import operand
from passes.numbers.integer_reads import INTEGERS
from passes.typing import Typing

__all__ = ["make_speculatable", "read_of"]


_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def make_speculatable(
    fused: FusedBody, nodes: Sequence[ir.Node], typing: Typing, *, copies: bool = True
) -> bool:
    """Let nodes that read a row, or count, do it without samples too, so that nothing fails.

    What a Gather yields has the shape that it would have had, so that nothing behind it can tell.
    So has what a Range yields, unless it would have counted for megabytes.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        nodes: Shared nodes of the body that could fail.
        typing: The proven typing.
        copies: Whether what a node reads may be copied for it, which takes longer than an If.

    Returns:
        Whether all of the nodes can be made speculatable; otherwise none of them is changed.
    """
    new = [_recorded(fused, node) for node in nodes]
    holds = [_hold_of(node, typing) for node in nodes]
    if None in holds or None in new or (not copies and not _IN_PLACE.issuperset(holds)):
        return False
    for old, one, hold in zip(nodes, new, holds, strict=True):
        assert one is not None
        assert hold is not None
        _record(fused, old, one, hold, typing)
    return True


def read_of(fused: FusedBody, nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """Return those of a body's shared nodes that a result may hang on.

    A Pad to one length does not read its amounts where they are proven to be what is left of it.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        nodes: Shared nodes of the body.
    """
    walk = fused.walk
    if any(walk.loops):
        return list(nodes)
    results = [walk.read(fused.site.body.outputs[o]) for o in fused.site.used_outputs()]
    pending = [v for x in results for v in (x.value, x.lengths and x.lengths.value) if v]
    live: set[ir.Node] = set()
    while pending:
        node = pending.pop().producer()
        if node is not None and node not in live:
            live.add(node)
            pending += reads_of(node)
    kept = []
    for node in nodes:
        held = walk.env.get(node.outputs[0])
        if held is None or held.value.producer() in live:
            kept.append(node)
    return kept


def _hold_of(node: ir.Node, typing: Typing) -> _Hold | None:
    """Return what lets a node run without samples, None where nothing does."""
    if _reads_rows(node, typing):
        return _at_first
    if _counts(node, typing):
        return _not_far
    if reduced_along(node, typing):
        return _zeros_behind
    return _row_of_zeros if reads_one_place(node, typing) else None


def _recorded(fused: FusedBody, node: ir.Node) -> ir.Node | None:
    """Return the new node that stands for a shared node; None if it is inside of another."""
    held = fused.walk.env.get(node.outputs[0])
    new = None if held is None else held.value.producer()
    return new if new is not None and _builder_of(fused, new) is not None else None


def _builder_of(fused: FusedBody, node: ir.Node) -> Builder | None:
    return next((stage for stage in fused.walk.stages if node in stage.nodes), None)


def _reads_rows(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is a Gather along an axis that has a position 0."""
    if not is_operator(node, "Gather"):
        return False
    dims = typing.dims(operand(node, 0))
    axis = node.attributes.get_int("axis", 0)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    return isinstance(size, int) and size > 0 and _dtype(node, typing) in INTEGERS


def _dtype(node: ir.Node, typing: Typing) -> ir.DataType | None:
    return typing.dtype(operand(node, 1))


def _counts(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is a Range from a constant in constant steps of at least 1."""
    if not is_operator(node, "Range"):
        return False
    start, step = (constant_value(node.inputs[i]) for i in (0, 2))
    if start is None or step is None or not (abs(step) >= 1).all():
        return False
    return bool(abs(start) <= FARTHEST) and _dtype(node, typing) in (*INTEGERS, *_FLOATS)


@dataclasses.dataclass(frozen=True)
class _HeldNode:
    """A node that is to run without samples.

    Attributes:
        builder: Records what comes before it.
        old: The node of the body.
        node: The node that stands for it.
        some: 1 where there are samples, else 0, int64 ``[1]``.
        typing: The proven typing.
    """

    builder: Builder
    old: ir.Node
    node: ir.Node
    some: ir.Value
    typing: Typing

    @property
    def dtype(self) -> ir.DataType:
        """The element type of the second operand."""
        return _dtype(self.old, self.typing) or ir.DataType.INT64

    def flag(self) -> ir.Value:
        """Return `some` as a scalar of the second operand's type."""
        one = self.builder.op("Squeeze", [self.some, self.builder.ints(0)])
        if self.dtype == ir.DataType.INT64:
            return one
        return self.builder.op("Cast", [one], {"to": self.dtype})


_Hold: TypeAlias = Callable[[_HeldNode], None]
"""Changes a node so that it does not fail without samples."""


def _at_first(held: _HeldNode) -> None:
    """Let a Gather read place 0 where there are no samples."""
    places = held.builder.op("Mul", [operand(held.node, 1), held.flag()])
    held.node.replace_input_with(1, places)


def _not_far(held: _HeldNode) -> None:
    """Let a Range count to what is not far from 0 where there are no samples."""
    builder, limit = held.builder, operand(held.node, 1)
    most, least, none = (
        builder.constant(np.array(n, held.dtype.numpy())) for n in (FARTHEST, -FARTHEST, 0)
    )
    near = builder.op("Max", [builder.op("Min", [limit, most]), least])
    is_some = builder.op("Greater", [held.flag(), none])
    held.node.replace_input_with(1, builder.op("Where", [is_some, limit, near]))


def _row_of_zeros(held: _HeldNode) -> None:
    """Let a Gather read zeros where there are no samples, and nothing at its place."""
    data, place = operand(held.old, 0), operand(held.old, 1)
    rank, dims = held.typing.rank(data), held.typing.static_dims(place)
    assert rank is not None
    assert dims is not None
    put_row_of_zeros(held.builder, held.node, held.some, rank, dims)


def _zeros_behind(held: _HeldNode) -> None:
    """Let a reduction have zeros to reduce where there are no samples."""
    rank, axes = held.typing.rank(operand(held.old, 0)), reduced_along(held.old, held.typing)
    assert rank is not None
    assert axes
    put_zeros_behind(held.builder, held.node, held.some, rank, axes)


_IN_PLACE: frozenset[_Hold | None] = frozenset({_at_first, _not_far})
"""What copies nothing that a node reads."""


def _record(fused: FusedBody, old: ir.Node, node: ir.Node, hold: _Hold, typing: Typing) -> None:
    stage = _builder_of(fused, node)
    assert stage is not None
    builder = Builder(stage.origin)
    some = builder.op("Min", [fused.batch, builder.ints(1)])
    hold(_HeldNode(builder, old, node, some, typing))
    place = stage.nodes.index(node)
    stage.nodes[place:place] = builder.nodes
