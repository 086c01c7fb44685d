"""Folds what onnxruntime folds when it loads a model: small constants, nodes that do nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead
from passes.runtimes.sidestep import OthersPass
from passes.runtimes.types import Types

__all__ = ["FoldNodesPass"]

_MOST = 64
"""So many numbers at most become a constant."""

_RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that keep all numbers in their order."""

_FOLDED = (
    *("Add", "Cast", "Concat", "ConstantOfShape", "Div", "Expand", "Gather", "Identity", "Max"),
    *("Min", "Mul", "Range", "Shape", "Size", "Slice", "Sub", "Where", *_RESHAPES),
)
"""Operators that compute shapes and places, or nothing."""

_NUMBERS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64}


class FoldNodesPass(OthersPass):
    """Compute what is the same in every run, and leave out nodes that yield their operand.

    onnxruntime does so when it loads a model, and goes over all of its nodes once more where it
    has changed one. What the model's author wrote in place stays. Conditions stay, too: one that
    is constant decides an If when the model is loaded.
    """

    only_for = (_FOLDED,)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the main graph, subgraphs and functions."""
        nodes = [node for node in self._others(model) if _may_go(node)]
        if not nodes:
            return ir.passes.PassResult(model, False)
        modified = make_names_unique(model)
        types = Types(model, self._kept)
        idle = [node for node in nodes if _yields_operand(node, types)]
        arrays = {
            node: array
            for node in nodes
            if (array := _array(node.outputs[0], types)) is not None and array.size <= _MOST
        }
        for node in idle:
            if node not in arrays:
                node.outputs[0].replace_all_uses_with(operand(node, 0))
        constants: dict[tuple[object, ...], ir.Value] = {}
        for node, array in arrays.items():
            _replace(node, array, set(arrays), constants)
        remove_dead([*idle, *arrays])
        if self._kept is not None:
            self._kept.enter(
                [made for v in constants.values() if (made := v.producer()) is not None], model
            )
        return ir.passes.PassResult(model, modified or bool(idle) or bool(arrays))


def _may_go(node: ir.Node) -> bool:
    """Whether a node yields one value that only nodes read."""
    return is_operator(node, _FOLDED) and not node.outputs[0].is_graph_output()


def _yields_operand(node: ir.Node, types: Types) -> bool:
    """Whether a node is an Identity, or casts to the type that its operand has."""
    if is_operator(node, "Identity"):
        return True
    is_cast = is_operator(node, "Cast")
    return is_cast and types.dtype(operand(node, 0)) == node.attributes["to"].as_int()


def _array(value: ir.Value, types: Types) -> np.ndarray | None:
    """Return the numbers of a value that are the same in every run; None for conditions."""
    dtype = types.dtype(value)
    if dtype not in _NUMBERS:
        return None
    known = types.known(value)
    node = value.producer()
    if known is not None or node is None or not node.inputs:
        return known
    if is_operator(node, "ConstantOfShape"):
        return _filled(node, types.known(operand(node, 0)))
    dims = types.dims(value)
    if is_operator(node, _RESHAPES) and dims is not None and _are_numbers(dims):
        given = _array(operand(node, 0), types)
        return None if given is None else given.reshape([int(dim or 0) for dim in dims])
    return None


def _filled(node: ir.Node, shape: np.ndarray | None) -> np.ndarray | None:
    """Return what a ConstantOfShape yields."""
    if shape is None or math.prod(shape.tolist()) > _MOST:
        return None
    value = node.attributes.get("value")
    number = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
    return np.full(shape.tolist(), number.reshape(()))


def _are_numbers(dims: Sequence[int | str | None]) -> bool:
    return all(isinstance(dim, int) for dim in dims)


def _replace(
    node: ir.Node,
    array: np.ndarray,
    folded: set[ir.Node],
    constants: dict[tuple[object, ...], ir.Value],
) -> None:
    """Let what is left read a constant in the place of a node; equal ones of a graph are one."""
    (value,), graph = node.outputs, node.graph
    assert graph is not None
    if all(use.node in folded for use in value.uses()):
        return
    key = (graph, array.dtype, array.shape, array.tobytes())
    if key not in constants:
        builder = Builder.at(node)
        constants[key] = builder.constant(array)
        graph.insert_before(graph[0], builder.nodes)
    value.replace_all_uses_with(constants[key])
