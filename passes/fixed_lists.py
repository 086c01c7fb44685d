"""Carries tensors in the place of lists that keep their length."""

from __future__ import annotations

import onnx_ir as ir

from passes.carried.lists.joined_elements import first_elements
from passes.graph.builder import Builder
from passes.graph.graphs import (
    all_nodes,
    constant_value,
    default_opset,
    graphs_in_loops,
    is_operator,
)
from passes.graph.made import made_by, operand, operands
from passes.graph.names import make_names_unique
from passes.sequences.carried import read_instead
from passes.sequences.fixed_elements import become_elements
from passes.sequences.fixed_lists import become_rows
from passes.typing import type_values

__all__ = ["FixedListsPass"]


class FixedListsPass(ir.passes.InPlacePass):
    """Carry tensors in the place of lists that have one length in all iterations.

    1. A list whose elements are read and written at constant places becomes its elements: states
       of layers, a window that moves on.
    2. One with places known at run time, whose elements have one shape by proof, becomes a tensor
       with an axis more: a ring.
    3. What a list has just gained at its end is read without the list.

    What a Loop carries so is read by other passes, and needs no sequences.
    """

    only_for = (("SequenceConstruct", "SequenceInsert"), ("Loop",))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the lists of all Loops; the model is typed once for one list of each."""
        inside = [node for graph in graphs_in_loops(model.graph) for node in graph]
        modified = sum(_read_appended(node) for node in inside) > 0
        while self._replace(model):
            modified = True
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _replace(self, model: ir.Model) -> bool:
        """Replace a list of each Loop that has one; return whether there was any."""
        states = [(node, at) for node in all_nodes(model) for at in _lists(node)]
        if not states:
            return False
        typing, opset = type_values(model, proven=True, ranks=False), default_opset(model)
        replaced: set[ir.Node] = set()
        for node, at in states:
            if node in replaced:
                continue
            if become_elements(node, at, typing, opset) or become_rows(node, at, typing, opset):
                replaced.add(node)
        return bool(replaced)


def _read_appended(node: ir.Node) -> bool:
    """Read a list by its end from in front of what it gained; return whether that is another."""
    modified = False
    while is_operator(node, "SequenceAt") and node.graph is not None:
        insert = made_by(operand(node, 0), "SequenceInsert")
        place = constant_value(node.inputs[1])
        if insert is None or len(operands(insert)) != 2 or place is None or place.item() >= 0:
            break
        builder, old = Builder.at(node), node.outputs[0]
        if place.item() < -1:
            number = builder.scalar(int(place.item()) + 1)
            value = builder.op("SequenceAt", [operand(insert, 0), number])
        else:
            value = builder.op("Identity", [operand(insert, 1)])
        node.graph.insert_before(node, builder.nodes)
        read_instead(old, value, is_new=True)
        node.graph.remove(node, safe=True)
        node, modified = builder.nodes[-1], True
    return modified


def _lists(node: ir.Node) -> list[int]:
    """Return where a Loop carries lists that lose elements, or that its body makes."""
    attribute = node.attributes.get("body") if is_operator(node, "Loop") else None
    body = None if attribute is None else attribute.as_graph()
    made = ("SequenceErase", "SequenceConstruct", "SequenceEmpty")
    if body is None or not any(is_operator(one, made) for one in body):
        return []
    if len(body.inputs) != len(node.inputs):
        return []
    return [
        at
        for at, value in enumerate(node.inputs[2:])
        if value is not None
        and first_elements(value)
        and body.outputs[1 + at] is not body.inputs[2 + at]
    ]
