"""Why a carried value makes a Loop no map."""

from __future__ import annotations

import onnx_ir as ir

from passes.decisions import Code
from passes.graph.graphs import is_operator, subgraphs
from passes.graph.made import made_by, operand, operands, skip_identities, through
from passes.reading.facts import Kind, State
from passes.reading.iterations import Carried
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried, why_written
from passes.typing.value_types import Typing

__all__ = ["why_carried"]

_READS = frozenset({"SequenceAt", "SequenceLength", "ConcatFromSequence"})
_PICKS = ("Gather", "GatherND", "GatherElements", "Slice")
_JOINS = ("Add", "Sub", "Mul", "Max", "Min")
_FORMS = ("Expand", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that give what is read or written another shape."""

_INSIDE_FIRST = "see what keeps the loop inside; without it this one may go, too"
_APPEND_AFTER = "let the branches yield the element, and append it after the If"


def why_carried(state: State, reader: ir.Node | None, typing: Typing) -> NotAMapError:
    """Say why a carried value makes a Loop no map.

    Args:
        state: A value of the kind `OTHER`, or a sequence that is read.
        reader: The node that reads it, if one is known.
        typing: Tells sequences from tensors.
    """
    carried, name = state.carried, name_of_carried(state.carried)
    node = skip_identities(carried.next).producer()
    reads = reader if state.kind is Kind.APPENDED else _reader_of_elements(carried, reader)
    if state.kind is Kind.APPENDED or reads is not None:
        detail = f"it reads '{name}', which holds what earlier iterations wrote"
        return NotAMapError(Code.READS_EARLIER, detail, reads)
    if node is not None and node.op_type == "If" and _inserts_in_every_branch(state, node):
        detail = f"each branch adds to '{name}' in a way of its own"
        return NotAMapError(Code.CONTROL_FLOW, detail, node, _APPEND_AFTER)
    if node is not None and node.op_type == "If" and _gains_elements(carried.next, carried.inner):
        detail = f"'{name}' gains an element in some iterations only"
        return NotAMapError(Code.CONDITIONAL_APPEND, detail, node)
    if node is not None and _moves_a_position(carried, node, typing):
        detail = f"'{name}' grows by another number in every iteration"
        return NotAMapError(Code.CARRIED_OFFSET, detail, node)
    if node is not None and node.op_type == "SequenceInsert":
        detail = f"'{name}' does not start empty, or gains elements elsewhere than at its end"
        return NotAMapError(Code.RECURRENCE, detail, node)
    if node is not None and node.op_type in ("Loop", "Scan") and carried.inner in node.inputs:
        detail = f"'{name}' goes through a {node.op_type} inside, which stays"
        return NotAMapError(Code.RECURRENCE, detail, node, _INSIDE_FIRST)
    if node is not None and _is_joined_at_places(node, carried.inner):
        detail = f"nothing proves that '{name}' is read where it is written, each place once"
        return NotAMapError(Code.RECURRENCE, detail, node)
    written = why_written(carried)
    if written is not None:
        return NotAMapError(Code.RECURRENCE, written[0], node, written[1])
    return NotAMapError(Code.RECURRENCE, f"'{name}' depends on its own past", node)


def _reader_of_elements(carried: Carried, reader: ir.Node | None) -> ir.Node | None:
    """Return a node that reads elements, or their number: the one that is known, or another."""
    if reader is not None and reader.op_type in _READS:
        return reader
    is_list = is_operator(skip_identities(carried.next).producer(), "SequenceInsert")
    uses = carried.inner.uses() if is_list else ()
    return next((one for one, _ in uses if one.op_type in _READS), None)


def _moves_a_position(carried: Carried, node: ir.Node, typing: Typing) -> bool:
    """Whether a node adds something to a carried integer of one element, or takes it away."""
    if typing.dtype(carried.inner) not in (ir.DataType.INT32, ir.DataType.INT64):
        return False
    dims = typing.dims(carried.initial)
    if node.op_type not in ("Add", "Sub") or (dims is not None and dims not in ((), (1,))):
        return False
    given = operands(node)[:1] if node.op_type == "Sub" else operands(node)
    return any(skip_identities(v) is carried.inner for v in given)


def _inserts_in_every_branch(state: State, node: ir.Node) -> bool:
    """Whether whichever branch is taken, the carried sequence gains an element."""
    carried = state.carried
    position = node.outputs.index(skip_identities(carried.next))
    yielded = [skip_identities(graph.outputs[position]) for _, graph in subgraphs(node)]
    inserts = [value.producer() for value in yielded]
    return all(
        insert is not None
        and insert.op_type == "SequenceInsert"
        and skip_identities(operand(insert, 0)) is carried.inner
        for insert in inserts
    )


def _gains_elements(value: ir.Value, inner: ir.Value) -> bool:
    """Whether a value is a carried sequence that gained elements, in a branch or a Loop too."""
    value = skip_identities(value)
    node = value.producer()
    if node is None:
        return False
    if node.op_type == "SequenceInsert":
        rest = skip_identities(operand(node, 0))
        return rest is inner or _gains_elements(rest, inner)
    if node.op_type == "If":
        position = node.outputs.index(value)
        return any(_gains_elements(g.outputs[position], inner) for _, g in subgraphs(node))
    return node.op_type == "Loop" and any(skip_identities(v) is inner for v in operands(node))


def _is_joined_at_places(node: ir.Node, inner: ir.Value) -> bool:
    """Whether a scatter writes what is joined to numbers that are picked of a tensor."""
    if node.op_type not in ("ScatterND", "ScatterElements"):
        return False
    if skip_identities(operand(node, 0)) is not inner:
        return False
    joins = made_by(through(operand(node, 2), _FORMS), *_JOINS)
    given = [] if joins is None else [through(v, _FORMS) for v in operands(joins)]
    picks = [pick for value in given if (pick := made_by(value, *_PICKS)) is not None]
    return any(through(operand(pick, 0), _FORMS) is inner for pick in picks)
