"""Can both branches of an If run, and one result be chosen? Says what keeps them from it."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.batching.table import Row, find, may_draw
from passes.graph.builder import ORIGIN_KEY, given_path
from passes.graph.graphs import is_default_domain, is_operator, recorded_path, walk_nodes
from passes.graph.if_outputs import branches_of
from passes.graph.picking import can_pick
from passes.graph.zero_sizes import LEAST_OPSET
from passes.runtimes.idle_nodes import can_idle
from passes.typing import Typing

__all__ = ["fails_on_nothing", "first_dtype", "have_one_shape", "hindrance"]

_EXTREMES: frozenset[ir.DataType | None] = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64}
)


def hindrance(node: ir.Node, typing: Typing, opset: int, *, holds_reads: bool = True) -> str:
    """Return why not both branches of an If can run and be picked from; empty where they can.

    Args:
        node: The If.
        typing: The proven typing.
        opset: Version of ONNX's operators.
        holds_reads: Whether a read of a place may become a Slice, whose bounds a device reads on
            the host.
    """
    condition, graphs = node.inputs[0], branches_of(node)
    if condition is None or not (
        typing.static_dims(condition) == (1,) or _is_number(condition, typing, opset)
    ):
        return "nothing tells that its condition is one value"
    if may_draw(node, opset):
        return "it draws random numbers"
    for inner in walk_nodes([inner for graph in graphs for inner in graph]):
        is_held = inner.graph in graphs and (
            fails_on_nothing(inner, typing) or (holds_reads and can_idle(inner, typing))
        )
        if not is_held and not runs_anywhere(inner, typing, opset):
            return f"{_told(inner)} could fail where its branch is not taken"
    pairs = zip(node.outputs, *(graph.outputs for graph in graphs), strict=True)
    unlike = (out for out, one, other in pairs if not _can_choose(one, other, typing, opset))
    first = next(unlike, None)
    return "" if first is None else f"its branches may yield different kinds of '{first.name}'"


def _told(node: ir.Node) -> str:
    """Name a node: one that was written is called by the node that it stands for."""
    path = given_path(node, node.name or "")
    is_given = recorded_path(node) or ORIGIN_KEY not in node.metadata_props
    return f"{path} ({node.op_type})".strip() if is_given else path


def _is_number(value: ir.Value | None, typing: Typing, opset: int) -> bool:
    """Return whether a value has rank 0, as what is computed from sums of all numbers has."""
    if value is None or typing.static_dims(value) == ():
        return value is not None
    node = value.producer()
    if node is None or not is_default_domain(node):
        return False
    if node.op_type.startswith("Reduce"):
        return _reduces_all(node)
    row = find(node, opset)
    if not isinstance(row, Row) or row.family not in ("elementwise", "broadcasting"):
        return False
    return all(_is_number(one, typing, opset) for one in node.inputs)


def _reduces_all(node: ir.Node) -> bool:
    """Whether a reduction yields one number, of rank 0."""
    given = node.attributes
    is_of_all = len(node.inputs) == 1 and "axes" not in given
    is_noop = given.get_int("noop_with_empty_axes", 0)
    return is_of_all and not is_noop and not given.get_int("keepdims", 1)


def have_one_shape(one: ir.Value, other: ir.Value, typing: Typing, opset: int) -> bool:
    """Return whether what two branches yield has one shape, by proof.

    It has, too, where both follow element by element from one value.
    """
    if typing.have_one_shape(one, other):
        return True
    return _shaped_like(one, opset) is _shaped_like(other, opset)


def _shaped_like(value: ir.Value, opset: int) -> ir.Value:
    """Return the value that a value follows from element by element."""
    node = value.producer()
    while node is not None and is_default_domain(node) and len(node.inputs) == 1:
        row = find(node, opset)
        if not isinstance(row, Row) or row.family != "elementwise":
            break
        assert node.inputs[0] is not None
        value = node.inputs[0]
        node = value.producer()
    return value


def _can_choose(one: ir.Value, other: ir.Value, typing: Typing, opset: int) -> bool:
    dtype = typing.dtype(one)
    if not isinstance(typing[one].type, ir.TensorType) or dtype != typing.dtype(other):
        return False
    if have_one_shape(one, other, typing, opset) and can_pick(dtype):
        return True
    rank = typing.rank(one)
    return rank is not None and rank == typing.rank(other) and opset >= LEAST_OPSET


def fails_on_nothing(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is the extreme of all numbers of a tensor, which fails if there are none."""
    is_extreme = is_operator(node, ("ReduceMax", "ReduceMin")) and _reduces_all(node)
    return is_extreme and first_dtype(node, typing) in _EXTREMES


def first_dtype(node: ir.Node, typing: Typing) -> ir.DataType | None:
    value = node.inputs[0]
    return None if value is None else typing.dtype(value)
