"""Replaces an If by both of its branches and a choice between their results."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.carried.common.masks import neutral_of
from passes.graph.builder import Builder
from passes.graph.graphs import (
    default_opset,
    graphs_inside,
    is_operator,
    node_paths,
    walk_nodes,
    with_subgraphs,
)
from passes.graph.if_outputs import branches_of
from passes.graph.names import make_names_unique
from passes.graph.node_copies import copy_body, copy_of
from passes.graph.opsets import to_opset_form
from passes.graph.picking import can_pick, pick
from passes.graph.splice import splice
from passes.inline import fits, functions_holding, inline_functions
from passes.maps.sequence_map import move_initializers
from passes.runtimes.branch_choice import fails_on_nothing, first_dtype, have_one_shape, hindrance
from passes.runtimes.failing_branches import failing_branch, put_check_for
from passes.runtimes.idle_nodes import let_idle
from passes.typing import Typing, type_values

__all__ = ["SelectBranchesPass", "replace_if"]


class SelectBranchesPass(ir.passes.InPlacePass):
    """Run both branches of an If and pick the results, for a target without If.

    1. No node of the branches could fail where the model would not run it, or draws random
       numbers. One that reads a place reads zeros where its branch is not taken and there is none.
    2. The results are tensors of known rank. Those of one shape, by proof, are picked from element
       by element; of others the one is cut out of both, laid one behind the other.
    3. Of an If with a branch from which the model always fails, the other branch is computed, and
       a check that fails where the condition asks for the first one.
    4. Functions of the model that hold an If are inlined, and those that a branch calls.

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
        modified = False
        while chosen := functions_holding(model, _is_if) or _called_in_branches(model):
            inline_functions(model, chosen)
            modified = True
        modified |= make_names_unique(model)
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
        opset = default_opset(model)
        for node in found:
            if changed.intersection(graphs_inside(node)):
                continue
            path = paths[node]
            if not hindrance(node, typing, opset):
                replace_if(node, typing, model, path)
                told = "both branches are computed and one is picked"
            elif failing := failing_branch(node, typing, opset):
                put_check_for(node, failing, model, path)
                told = "a branch from which the model always fails is a check that fails"
            else:
                continue
            changed.add(node.graph)
            self.warnings.append(f"{path}: {told}, since the target has no If")
        return bool(changed)


def _is_if(node: ir.Node) -> bool:
    return is_operator(node, "If")


def _called_in_branches(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Return the functions that branches of Ifs in the main graph call."""
    ifs = [node for node in walk_nodes(model.graph) if _is_if(node)]
    called = {inner.op_identifier() for node in ifs for g in graphs_inside(node) for inner in g}
    return {i for i in called & model.functions.keys() if fits(model.functions[i], model)}


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
            if fails_on_nothing(inner, typing):
                _let_reduce_nothing(builder, copy, first_dtype(inner, typing))
            elif not runs_anywhere(inner, typing, opset):
                taken = flag if is_first else builder.op("Not", [flag])
                let_idle(builder, copy, inner, taken, typing)
            builder.nodes.append(copy)
        made.append([(value, copy_of(values, value)) for value in graph.outputs])
    results = [
        _chosen(builder, flag, one, other, typing, opset) for one, other in zip(*made, strict=True)
    ]
    to_opset_form(builder.nodes, opset)
    splice(builder, node, zip(node.outputs, results, strict=True))


def _let_reduce_nothing(builder: Builder, node: ir.Node, dtype: ir.DataType | None) -> None:
    """Give an extreme one more number, behind the others, that changes none."""
    value = node.inputs[0]
    assert value is not None
    assert dtype is not None
    numbers = builder.op("Reshape", [value, builder.ints(-1)])
    family = node.op_type.removeprefix("Reduce")
    neutral = builder.constant(np.array([neutral_of(family, dtype)], dtype.numpy()))
    node.replace_input_with(0, builder.op("Concat", [numbers, neutral], {"axis": 0}))


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
