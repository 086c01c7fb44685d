"""Ifs with a branch from which the model always fails: it need not be computed, only to fail.

Exporters write code for a case that they never ran: one branch yields a matrix, the other a
tensor of one rank more, with which an operator behind the If can do nothing. The result of the
other branch is taken, by way of a check that fails where the condition asks for the first one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx.shape_inference import InferenceError, infer_node_outputs

from passes.graph.builder import Builder, needed_nodes
from passes.graph.graphs import (
    constant_value,
    default_opset,
    is_default_domain,
    is_operator,
    name_of,
    subgraphs,
)
from passes.graph.if_outputs import branches_of
from passes.graph.made import operands
from passes.graph.node_copies import copy_body, copy_of
from passes.graph.opsets import schema_of, to_opset_form
from passes.graph.splice import splice
from passes.maps.sequence_map import move_initializers
from passes.typing import Typing, ValueType
from passes.typing.protos import value_type

__all__ = ["failing_branch", "put_check_for"]

_CHECKED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64})
"""Element types of the results that a check can be written into."""


@dataclasses.dataclass(frozen=True)
class Failing:
    """A branch of an If from which the model always fails.

    Attributes:
        branch: 0 for the first one, 1 for the other.
        output: The number of an output of the If that is read where the model fails.
        dtype: The element type of what the other branch yields for it.
    """

    branch: int
    output: int
    dtype: ir.DataType


def failing_branch(node: ir.Node, typing: Typing, opset: int) -> Failing | None:
    """Return the branch of an If from which the model always fails; None if neither is proven to.

    It fails by the ranks of what the branch yields, in a node that runs wherever the If does.

    Args:
        node: The If.
        typing: The proven typing.
        opset: Version of ONNX's operators.
    """
    graph = node.graph
    if graph is None or not is_operator(node, "If"):
        return None
    needed = needed_nodes(graph, graph.outputs)
    for at, branch in enumerate(branches_of(node)):
        pairs = zip(node.outputs, branch.outputs, strict=True)
        ranks = {out: ValueType(typing[v].type, _rank_alone(typing, v)) for out, v in pairs}
        found = _failing(node, ranks, needed, typing, opset)
        if found is None:
            continue
        read = needed_nodes(graph, [v for v in found.inputs if v is not None]) | {found}
        given = {value for reader in read for value in reader.inputs}
        for number, value in enumerate(branches_of(node)[1 - at].outputs):
            dtype = typing.dtype(value)
            if node.outputs[number] in given and dtype in _CHECKED:
                assert dtype is not None
                return Failing(at, number, dtype)
    return None


def _rank_alone(typing: Typing, value: ir.Value) -> tuple[None, ...] | None:
    rank = typing.rank(value)
    return None if rank is None else (None,) * rank


def _failing(
    node: ir.Node,
    types: dict[ir.Value, ValueType],
    needed: set[ir.Node],
    typing: Typing,
    opset: int,
) -> ir.Node | None:
    """Return the first node behind an If that cannot take values of some types.

    Args:
        node: The If.
        types: What it yields; what is found of the values behind it is added.
        needed: The nodes that run wherever it does.
        typing: The proven typing of all else.
        opset: Version of ONNX's operators.
    """
    for follower in _behind(node):
        if not types.keys() & set(follower.inputs) or follower not in needed:
            continue
        if not is_default_domain(follower) or subgraphs(follower):
            continue
        read = {v: types.get(v, typing[v]) for v in operands(follower)}
        if not all(isinstance(held.type, ir.TensorType) for held in read.values()):
            continue
        if _has_updates_of_another_rank(follower, read, typing):
            return follower
        try:
            types |= _inferred(follower, read, opset)
        except InferenceError:
            return follower
    return None


def _behind(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes behind a node in its graph."""
    assert node.graph is not None
    is_behind = False
    for one in node.graph:
        if is_behind:
            yield one
        is_behind |= one is node


def _has_updates_of_another_rank(
    node: ir.Node, types: Mapping[ir.Value, ValueType], typing: Typing
) -> bool:
    """Whether a ScatterND is given updates of a rank that fits nothing: inference lets it pass."""
    if not is_operator(node, "ScatterND"):
        return False
    data, places, updates = (types[v].dims for v in operands(node))
    written = typing.dims(operands(node)[1])
    depth = written[-1] if written and places and len(written) == len(places) else None
    if data is None or places is None or updates is None or not isinstance(depth, int):
        return False
    return len(updates) != len(places) - 1 + len(data) - depth


def _inferred(
    node: ir.Node, read: Mapping[ir.Value, ValueType], opset: int
) -> dict[ir.Value, ValueType]:
    """Return the types of what a node makes of values of some types.

    Raises:
        InferenceError: It cannot take them.
    """
    schema = schema_of(node.op_type, opset)
    if schema is None:
        return {}
    types = {name_of(v): _type_proto(held) for v, held in read.items()}
    constants = {name_of(v): constant_value(v) for v in read}
    data = {
        name: onnx.numpy_helper.from_array(array)
        for name, array in constants.items()
        if array is not None and array.dtype.kind in "iuf"
    }
    imports = [onnx.helper.make_opsetid("", opset)]
    try:
        found = infer_node_outputs(schema, ir.to_proto(node), types, data, opset_imports=imports)
    except (KeyError, RuntimeError, ValueError):
        return {}
    known: dict[bytes, ValueType] = {}
    outputs = {name_of(v): v for v in node.outputs}
    return {outputs[name]: value_type(type_, known) for name, type_ in found.items()}


def _type_proto(held: ValueType) -> onnx.TypeProto:
    """Return a type by its rank alone, but for the length of a vector, which may be a rank."""
    assert held.type is not None
    dims = held.dims if held.dims is None or len(held.dims) == 1 else (None,) * len(held.dims)
    return onnx.helper.make_tensor_type_proto(held.type.dtype, dims)


def put_check_for(node: ir.Node, found: Failing, model: ir.Model, path: str) -> None:
    """Put the branch that does not fail in the place of an If, and a check.

    Args:
        node: The If.
        found: What `failing_branch` found.
        model: Its model.
        path: Its path in the model, for the names of the new nodes.
    """
    condition, branch = node.inputs[0], branches_of(node)[1 - found.branch]
    assert condition is not None
    builder = Builder(path)
    move_initializers(branch, model.graph)
    values: dict[ir.Value, ir.Value | None] = {}
    builder.nodes += copy_body(branch, values)
    results = [copy_of(values, value) for value in branch.outputs]
    bad = builder.op("Not", [condition]) if found.branch else condition
    zero = _zero_or_failing(builder, bad, found.dtype)
    results[found.output] = builder.op("Add", [results[found.output], zero])
    to_opset_form(builder.nodes, default_opset(model))
    splice(builder, node, zip(node.outputs, results, strict=True))


def _zero_or_failing(builder: Builder, bad: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Record a zero that changes no number that it is added to, and an error where a flag is set.

    One number is reshaped to as many more as flags are set, as in `passes.batching.packed.checks`.
    """
    zero = -0.0 if dtype.is_floating_point() else 0
    vector = builder.constant(np.array([zero], dtype.numpy()))
    flags = builder.op("Reshape", [bad, builder.ints(-1)])
    count = builder.op("Cast", [flags], {"to": ir.DataType.INT64})
    more = builder.op("ReduceSum", [count, builder.ints(0)])
    size = builder.op("Add", [builder.op("Shape", [vector]), more])
    return builder.op("ReduceMax", [builder.op("Reshape", [vector, size])], {"keepdims": 0})
