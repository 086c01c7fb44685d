"""What holds of every pass and of every model that it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs, all_nodes

__all__ = ["Applied", "apply", "stray_uses"]

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


def apply(before: onnx.ModelProto, make: Callable[[], P], *, valid: bool = True) -> Applied[P]:
    """Run a pass, and check that it is deterministic, truthful and idempotent.

    The model that it gives has its opset, inputs and outputs as they were.

    Args:
        before: The model.
        make: Makes the pass.
        valid: Whether ONNX's checker accepts the model.
    """
    made = []
    for _ in range(2):
        taken = ir.from_proto(before)
        first = make()
        modified = first(taken).modified
        made.append(ir.to_proto(taken))
    after = made[0]
    assert after == made[1], "a second run on the same model gives another one"
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
