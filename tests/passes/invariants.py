"""What holds of every pass and of every model that it gives."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Generic, TypeVar

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs, all_nodes

__all__ = ["Applied", "apply", "stray_uses"]

RUN_TWICE = 4
"""On one model in so many a pass is run from the beginning twice."""

P = TypeVar("P", bound=ir.passes.InPlacePass)


@dataclasses.dataclass(frozen=True)
class Applied(Generic[P]):
    """A model after a pass.

    Attributes:
        model: The model.
        modified: Whether the pass said that it changed the model.
        first: The pass.
        again: The pass that then changed nothing more.
    """

    model: onnx.ModelProto
    modified: bool
    first: P
    again: P


def stray_uses(model: ir.Model) -> list[str]:
    """Return the values of a model that a node reads which no graph of the model holds.

    Such a value counts as needed for good, and so does all that it is computed from.
    """
    nodes = set(all_nodes(model))
    values = [
        value
        for graph in all_graphs(model)
        for value in (*graph.inputs, *graph.initializers.values(), *outputs_of(graph))
    ]
    return [
        f"{v.name} by {user.op_type}" for v in values for user, _ in v.uses() if user not in nodes
    ]


def outputs_of(graph: ir.Graph) -> list[ir.Value]:
    """Return what the nodes of a graph yield."""
    return [value for node in graph for value in node.outputs]


def _is_run_twice(model: onnx.ModelProto) -> bool:
    return zlib.crc32(model.SerializeToString(deterministic=True)) % RUN_TWICE == 0


def apply(before: onnx.ModelProto, make: Callable[[], P], *, valid: bool = True) -> Applied[P]:
    """Run a pass, and check that it is truthful and idempotent, and on some that it is deterministic.

    The model that it gives has its opset, inputs and outputs as they were. On which models the
    pass runs a second time follows from their bytes alone.

    Args:
        before: The model.
        make: Makes the pass.
        valid: Whether ONNX's checker accepts the model.
    """
    first, taken = make(), ir.from_proto(before)
    modified = first(taken).modified
    after = ir.to_proto(taken)
    if _is_run_twice(before):
        other = ir.from_proto(before)
        make()(other)
        assert after == ir.to_proto(other), "a second run on the same model gives another one"
    assert modified == (after != ir.to_proto(ir.from_proto(before)))
    again = make()
    assert not again(taken).modified
    assert ir.to_proto(taken) == after, "a second pass changes the model"
    if valid:
        onnx.checker.check_model(after, full_check=True)
    assert list(before.opset_import) == list(after.opset_import)
    for old, new in (
        (before.graph.input, after.graph.input),
        (before.graph.output, after.graph.output),
    ):
        assert [(v.name, v.type) for v in old] == [(v.name, v.type) for v in new]
    return Applied(after, modified, first, again)
