"""Lists that a Loop carries with one number of elements, as the elements: each a carried value.

``h[0] = f(x, h[0]); h[1] = g(h[0], h[1])`` of a list of two carries two tensors, and so does
``h = [h[1], f(x)]``. The elements may have any shapes; the places have to be constants.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import onnx_ir as ir

from passes.carried.lists.joined_elements import first_elements
from passes.graph.builder import ORIGIN_KEY, Builder, tensor_value
from passes.graph.graphs import captured_values, constant_value, is_operator, subgraphs
from passes.graph.made import operand, operands
from passes.graph.opsets import to_opset_form
from passes.sequences.carried import loop_anew, read_instead
from passes.typing.value_types import Typing

__all__ = ["become_elements", "place_of"]

MOST_ELEMENTS = 16
"""So many elements of a list are carried one by one."""

_Elements: TypeAlias = tuple[ir.Value, ...]
_MAKERS = ("SequenceConstruct", "SequenceEmpty")
_READERS = ("SequenceAt", "SequenceLength", "ConcatFromSequence")


@dataclasses.dataclass
class _Lists:
    """The lists of a body that follow from one that is carried, or are made anew.

    Attributes:
        held: The elements of each.
        nodes: What makes and reads them, in order.
    """

    held: dict[ir.Value, _Elements]
    nodes: list[ir.Node] = dataclasses.field(default_factory=list)


def become_elements(node: ir.Node, state: int, typing: Typing, opset: int) -> bool:
    """Carry the elements of a list in its place, if it has as many in each iteration.

    Args:
        node: A Loop.
        state: A position among its states.
        typing: The proven typing.
        opset: Version of ONNX's operators.

    Returns:
        Whether the Loop was replaced.
    """
    body, first = node.attributes["body"].as_graph(), first_elements(operand(node, 2 + state))
    if not first or len(first) > MOST_ELEMENTS:
        return False
    types = [typing.dtype(v) for v in first]
    inner = [
        tensor_value(f"{body.inputs[2 + state].name}/{at}", dtype)
        for at, dtype in enumerate(types)
        if dtype is not None
    ]
    lists = (
        _lists_of(body, body.inputs[2 + state], tuple(inner)) if len(inner) == len(first) else None
    )
    last = body.outputs[1 + state]
    if lists is None or last is body.inputs[2 + state] or last not in lists.held:
        return False
    others = [v for at, v in enumerate(body.outputs) if at != 1 + state]
    if len(lists.held[last]) != len(first) or any(v in lists.held for v in others):
        return False
    found = _rewrite_reads(lists, opset)
    builder = Builder.at(node)
    ends = [builder.op("Identity", [found.get(v, v)]) for v in lists.held[last]]
    for end, own in zip(ends, inner, strict=True):
        end.type = own.type
    body.extend(builder.nodes)
    body.outputs[1 + state : 2 + state] = ends
    for one in reversed(lists.nodes):
        body.remove(one, safe=True)
    body.inputs[2 + state : 3 + state] = inner
    _write_loop(node, state, first)
    return True


def _lists_of(body: ir.Graph, carried: ir.Value, inner: _Elements) -> _Lists | None:
    """Return the elements of the lists of a body; None if it does anything else with them."""
    lists = _Lists({carried: inner})
    for node in body:
        inside = [v for _, graph in subgraphs(node) for v in captured_values(graph)]
        if any(v in lists.held for v in inside):
            return None
        makes = is_operator(node, _MAKERS) and _is_for(node, carried, body)
        if not makes and not any(v in lists.held for v in node.inputs):
            continue
        elements = _made(node, lists.held)
        if elements is not None:
            lists.held[node.outputs[0]] = elements
        elif not _is_read(node, lists.held):
            return None
        lists.nodes.append(node)
    return lists


def _is_for(node: ir.Node, carried: ir.Value, body: ir.Graph) -> bool:
    """Whether a list that is made in a body becomes the next one that is carried."""
    end = body.outputs[list(body.inputs).index(carried) - 1]
    while (made := end.producer()) is not None and made is not node:
        if not is_operator(made, ("Identity", "SequenceInsert", "SequenceErase")):
            return False
        end = operand(made, 0)
    return made is node


def _made(node: ir.Node, held: dict[ir.Value, _Elements]) -> _Elements | None:
    """Return the elements of the list that a node makes; None if it makes none that is known."""
    given = operands(node)
    if is_operator(node, _MAKERS):
        return tuple(given)
    if not is_operator(node, ("Identity", "SequenceInsert", "SequenceErase")):
        return None
    own = held.get(given[0])
    if own is None or node.op_type == "Identity":
        return own
    inserts = node.op_type == "SequenceInsert"
    place = place_of(given[1 + inserts :], len(own) - (not inserts), len(own))
    if place is None or not 0 <= place < len(own) + inserts:
        return None
    return (*own[:place], *given[1 : 1 + inserts], *own[place + (not inserts) :])


def place_of(given: list[ir.Value], default: int, length: int) -> int | None:
    """Return a place that is a constant, counted from the front; None if it is none.

    Args:
        given: The operand, if there is one.
        default: The place where there is none.
        length: How many elements the list has.
    """
    if not given:
        return default
    number = constant_value(given[0])
    if number is None or number.size != 1:
        return None
    return int(number.item()) + (length if number.item() < 0 else 0)


def _is_read(node: ir.Node, held: dict[ir.Value, _Elements]) -> bool:
    """Whether a node reads what is known of a list."""
    own = held.get(operand(node, 0)) if is_operator(node, _READERS) else None
    if own is None or any(v in held for v in node.inputs[1:]):
        return False
    if node.op_type == "ConcatFromSequence":
        return bool(own)
    place = place_of(operands(node)[1:], 0, len(own))
    return node.op_type == "SequenceLength" or (place is not None and 0 <= place < len(own))


def _rewrite_reads(lists: _Lists, opset: int) -> dict[ir.Value, ir.Value]:
    """Record all reads on the elements; return what stands for each value that was read."""
    found: dict[ir.Value, ir.Value] = {}
    for node in lists.nodes:
        old = node.outputs[0]
        if old in lists.held:
            continue
        builder = Builder.at(node)
        own = [found.get(v, v) for v in lists.held[operand(node, 0)]]
        new = found[old] = _read(builder, node, own)
        to_opset_form(builder.nodes, opset)
        assert node.graph is not None
        node.graph.insert_before(node, builder.nodes)
        read_instead(old, new, is_new=True)
    return found


def _read(builder: Builder, node: ir.Node, own: list[ir.Value]) -> ir.Value:
    if node.op_type == "SequenceLength":
        return builder.scalar(len(own))
    if node.op_type == "SequenceAt":
        place = place_of(operands(node)[1:], 0, len(own))
        assert place is not None
        return builder.op("Identity", [own[place]])
    axis = node.attributes.get_int("axis", 0)
    if node.attributes.get_int("new_axis", 0):
        own = [builder.op("Unsqueeze", [v, builder.ints(axis)]) for v in own]
    return builder.op("Concat", own, {"axis": axis})


def _write_loop(node: ir.Node, state: int, first: list[ir.Value]) -> None:
    """Write a Loop anew whose body carries elements in the place of a list."""
    graph, body = node.graph, node.attributes["body"].as_graph()
    assert graph is not None
    builder = Builder.at(node)
    inputs = [*node.inputs[: 2 + state], *first, *node.inputs[3 + state :]]
    outputs = loop_anew(builder, node, body, inputs)
    builder.nodes[-1].metadata_props.pop(ORIGIN_KEY)  # it is the Loop of the model as given
    own = outputs[state : state + len(first)]
    list_ = builder.op("SequenceConstruct", own)
    outputs[state : state + len(first)] = [list_]
    graph.insert_before(node, builder.nodes)
    for before, after in zip(node.outputs, outputs, strict=True):
        read_instead(before, after, is_new=True)
    graph.remove(node, safe=True)
    if not list_.uses() and not list_.is_graph_output():
        made = list_.producer()
        assert made is not None
        graph.remove(made, safe=True)
