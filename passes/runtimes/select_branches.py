"""Replaces an If by both of its branches and a choice between their results."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.absent_rows import (
    put_row_of_zeros,
    put_zeros_behind,
    reads_one_place,
    reduced_along,
)
from passes.batching.anywhere import runs_anywhere
from passes.batching.table import Row, find, may_draw
from passes.carried.common.masks import neutral_of
from passes.graph.builder import ORIGIN_KEY, Builder, given_path
from passes.graph.graphs import (
    default_opset,
    graphs_inside,
    is_default_domain,
    is_operator,
    node_paths,
    recorded_path,
    walk_nodes,
    with_subgraphs,
)
from passes.graph.if_outputs import branches_of
from passes.graph.made import operand
from passes.graph.names import make_names_unique
from passes.graph.node_copies import copy_body, copy_of
from passes.graph.opsets import to_opset_form
from passes.graph.picking import can_pick, pick
from passes.graph.splice import splice
from passes.graph.zero_sizes import LEAST_OPSET
from passes.inline import functions_holding, inline_functions
from passes.maps.sequence_map import move_initializers
from passes.typing import Typing, type_values

__all__ = ["SelectBranchesPass", "have_one_shape", "hindrance", "replace_if"]

_EXTREMES: frozenset[ir.DataType | None] = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64}
)


class SelectBranchesPass(ir.passes.InPlacePass):
    """Run both branches of an If and pick the results, for a target without If.

    1. No node of the branches could fail where the model would not run it, or draws random
       numbers. One that reads a place reads zeros where its branch is not taken and there is none.
    2. The results are tensors of known rank. Those of one shape, by proof, are picked from element
       by element; of others the one is cut out of both, laid one behind the other.
    3. Functions of the model that hold an If are inlined.

    Attributes:
        warnings: What it costs.
    """

    def __init__(self) -> None:
        """Set up the pass."""
        super().__init__()
        self.warnings: list[str] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace what can be replaced in the main graph and in all graphs in it."""
        self.warnings = []
        chosen = functions_holding(model, _is_if)
        if chosen:
            inline_functions(model, chosen)
        modified = make_names_unique(model) or bool(chosen)
        while self._select(model):
            modified = True
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _select(self, model: ir.Model) -> bool:
        """Replace each If in which none was replaced; return whether there is one."""
        found = [
            node
            for graph in reversed(list(with_subgraphs(model.graph)))
            for node in graph
            if _is_if(node)
        ]
        if not found:
            return False
        typing, paths = type_values(model, proven=True, ranks=False), node_paths(model)
        changed: set[ir.Graph | None] = set()
        for node in found:
            if changed.intersection(graphs_inside(node)):
                continue
            if not hindrance(node, typing, default_opset(model)):
                replace_if(node, typing, model, paths[node])
                changed.add(node.graph)
                self.warnings.append(
                    f"{paths[node]}: both branches are computed and one is picked, since the "
                    "target has no If"
                )
        return bool(changed)


def _is_if(node: ir.Node) -> bool:
    return is_operator(node, "If")


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
            _fails_on_nothing(inner, typing) or (holds_reads and _can_be_held(inner, typing))
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


def replace_if(node: ir.Node, typing: Typing, model: ir.Model, path: str) -> None:
    """Put the nodes of both branches and a choice in the place of an If without a `hindrance`.

    Args:
        node: The If.
        typing: The proven typing.
        model: Its model.
        path: Its path in the model, for the names of the new nodes.
    """
    builder, made = Builder(path), []
    opset, condition = default_opset(model), node.inputs[0]
    assert condition is not None
    flag = condition
    if typing.rank(condition) == 1:
        flag = builder.op("Squeeze", [condition, builder.ints(0)])
    for is_first, graph in zip((True, False), branches_of(node), strict=True):
        move_initializers(graph, model.graph)
        values: dict[ir.Value, ir.Value | None] = {}
        for inner, copy in zip(graph, copy_body(graph, values), strict=True):
            if _fails_on_nothing(inner, typing):
                _let_reduce_nothing(builder, copy, _dtype(inner, typing))
            elif not runs_anywhere(inner, typing, opset):
                _let_be_idle(builder, copy, inner, flag, typing, is_first=is_first)
            builder.nodes.append(copy)
        made.append([(value, copy_of(values, value)) for value in graph.outputs])
    results = [
        _chosen(builder, flag, one, other, typing, opset) for one, other in zip(*made, strict=True)
    ]
    to_opset_form(builder.nodes, opset)
    splice(builder, node, zip(node.outputs, results, strict=True))


def _fails_on_nothing(node: ir.Node, typing: Typing) -> bool:
    """Whether a node is the extreme of all numbers of a tensor, which fails if there are none."""
    is_extreme = is_operator(node, ("ReduceMax", "ReduceMin")) and _reduces_all(node)
    return is_extreme and _dtype(node, typing) in _EXTREMES


def _dtype(node: ir.Node, typing: Typing) -> ir.DataType | None:
    value = node.inputs[0]
    return None if value is None else typing.dtype(value)


def _let_reduce_nothing(builder: Builder, node: ir.Node, dtype: ir.DataType | None) -> None:
    """Give an extreme one more number, behind the others, that changes none."""
    value = node.inputs[0]
    assert value is not None
    assert dtype is not None
    numbers = builder.op("Reshape", [value, builder.ints(-1)])
    family = node.op_type.removeprefix("Reduce")
    neutral = builder.constant(np.array([neutral_of(family, dtype)], dtype.numpy()))
    node.replace_input_with(0, builder.op("Concat", [numbers, neutral], {"axis": 0}))


def _can_be_held(node: ir.Node, typing: Typing) -> bool:
    """Whether a node can read zeros where its branch is not taken and nothing is there."""
    return reads_one_place(node, typing) or bool(reduced_along(node, typing))


def _let_be_idle(
    builder: Builder,
    node: ir.Node,
    old: ir.Node,
    flag: ir.Value,
    typing: Typing,
    *,
    is_first: bool,
) -> None:
    """Let a reduction, or a Gather of one place, read zeros where its branch is not taken."""
    rank = typing.rank(operand(old, 0))
    assert rank is not None
    taken = flag if is_first else builder.op("Not", [flag])
    number = builder.op("Cast", [taken], {"to": ir.DataType.INT64})
    some = builder.op("Reshape", [number, builder.ints(1)])
    if axes := reduced_along(old, typing):
        put_zeros_behind(builder, node, some, rank, axes)
        return
    place = typing.static_dims(operand(old, 1))
    assert place is not None
    put_row_of_zeros(builder, node, some, rank, place)


Pair = tuple[ir.Value, ir.Value]
"""An output of a branch, and the value that stands for it outside."""


def _chosen(
    builder: Builder, flag: ir.Value, one: Pair, other: Pair, typing: Typing, opset: int
) -> ir.Value:
    """Record the choice of a result."""
    dtype = typing.dtype(one[0])
    if have_one_shape(one[0], other[0], typing, opset) and can_pick(dtype):
        assert dtype is not None
        return pick(builder, flag, one[1], other[1], dtype)
    shapes = [builder.op("Shape", [value]) for _, value in (one, other)]
    rows = [builder.op("Reshape", [value, builder.ints(-1)]) for _, value in (one, other)]
    first, second = (builder.op("Shape", [row]) for row in rows)
    start = builder.op("Where", [flag, builder.ints(0), first])
    end = builder.op("Where", [flag, first, builder.op("Add", [first, second])])
    both = builder.op("Concat", rows, {"axis": 0})
    cut = builder.op("Slice", [both, start, end])
    return builder.op("Reshape", [cut, builder.op("Where", [flag, *shapes])], {"allowzero": 1})
