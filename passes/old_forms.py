"""Operators in the forms that old frontends know."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import all_graphs, default_opset, is_default_domain
from passes.names import make_names_unique
from passes.splice import splice
from passes.typing import Typing, type_values

__all__ = ["OldFormsPass"]


class OldFormsPass(ir.passes.InPlacePass):
    """Give every Split of known sizes its ``split`` input in place of ``num_outputs``.

    The attribute is new in opset 18; frontends that stop at opset 13 take the sizes as an input.
    A Split of an open dimension stays: its sizes are computed by the operator itself.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        found = [
            (graph, node)
            for graph in all_graphs(model)
            for node in graph
            if node.op_type == "Split" and is_default_domain(node) and _has_no_sizes(node)
        ]
        if not found or default_opset(model) < 13:
            return ir.passes.PassResult(model, False)
        typing = type_values(model)
        changed = [_give_sizes(node, typing) for _, node in found]
        if any(changed):
            make_names_unique(model)
        return ir.passes.PassResult(model, any(changed))


def _has_no_sizes(node: ir.Node) -> bool:
    return len(node.inputs) < 2 or node.inputs[1] is None


def _give_sizes(node: ir.Node, typing: Typing) -> bool:
    data = node.inputs[0]
    dims = None if data is None else typing.dims(data)
    axis = node.attributes.get_int("axis", 0) or 0
    if data is None or dims is None or not -len(dims) <= axis < len(dims):
        return False
    size = dims[axis]
    if not isinstance(size, int):
        return False
    count = len(node.outputs)
    step = -(-size // count)
    sizes = [max(0, min(step, size - step * i)) for i in range(count)]
    builder = Builder(node.name or "Split")
    made = builder.node("Split", [data, builder.ints(*sizes)], {"axis": axis}, outputs=count)
    made.metadata_props.update(node.metadata_props)
    splice(builder, node, zip(node.outputs, made.outputs, strict=True))
    return True
