"""Sequences that a Loop carries become scan outputs, or are read from outside."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import is_operator, is_used
from passes.graph.made import before_identities
from passes.graph.splice import remove_dead
from passes.loops.forms import SPLITTABLE
from passes.sequences.carried_tensors import Append, carry_joined, find_append
from passes.sequences.known import KnownSequences
from passes.sequences.parts import MOST_PIECES
from passes.sequences.reads import READERS
from passes.typing.value_types import Typing

__all__ = ["carries_tensors", "loop_anew", "note_tensors", "read_instead", "rewrite_loop"]

_KEY = "seqmap.tensors"
"""Note on a Loop, which no file holds: it carries or yields tensors where it had lists."""


def note_tensors(loop: ir.Node) -> None:
    """Note that a Loop carries or yields tensors in the place of lists."""
    loop.meta[_KEY] = True


def carries_tensors(node: ir.Node) -> bool:
    """Whether a Loop of the model has tensors in the place of lists."""
    return _KEY in node.meta


def rewrite_loop(node: ir.Node, typing: Typing, known: KnownSequences, *, required: bool) -> bool:
    """Take one sequence out of the states of a Loop.

    1. A sequence that the body passes on unchanged is read from outside. One that it only appends
       to and that nothing reads afterwards is dropped, and so is the scan output that a Loop of
       the body has for it alone.
    2. A sequence that the body only appends to, by one element in each iteration, becomes a scan
       output: where all elements have one shape by proof, or where nothing is done with the
       sequence but to stack it, which elements of different shapes cannot survive.
    3. Where no sequence may be left, one that is only concatenated afterwards becomes a tensor
       that grows.

    Args:
        node: The Loop.
        typing: A proven typing.
        known: What is known of sequences.
        required: Whether no sequence may be left, at any cost.

    Returns:
        Whether the Loop was replaced.
    """
    attribute = node.attributes.get("body")
    body = None if attribute is None else attribute.as_graph()
    if body is None or len(body.inputs) != len(node.inputs):
        return False
    for state in range(len(body.inputs) - 2):
        first = node.inputs[2 + state]
        if first is None or (known[first] is None and typing.is_sequence(first) is not True):
            continue
        if before_identities(body.outputs[1 + state]) is body.inputs[2 + state]:
            _drop_state(node, body, state, first)
            return True
        found = find_append(node, body, state)
        if found is not None and not is_used(found.result):
            _drop_state(node, body, state, first)
            _drop_scan_output(found.element)
            return True
        count = None if found is None else _elements_before(found, typing, known)
        if found is not None and count is not None:
            _drop_state(node, body, state, first, _scan_output(body, found, typing), count)
            return True
        if required and found is not None and carry_joined(node, body, found, typing, known):
            return True
    return False


def _elements_before(append: Append, typing: Typing, known: KnownSequences) -> int | None:
    """Return how many elements a sequence starts with, None if it cannot become a scan output.

    It can if a scan output holds all that is read of it, and if the element type can be split
    where it may be needed as a sequence.
    """
    parts = known[append.first]
    count = None if parts is None else parts.count
    dims, dtype = typing.dims(append.element), typing.dtype(append.element)
    if count is None or count > MOST_PIECES or dtype is None:
        return None
    users = [user for user, _ in append.result.uses()]
    is_equal = dims is not None and all(typing.is_one_number(dim) for dim in dims)
    if is_equal and dtype in SPLITTABLE:
        return count
    if count or append.result.is_graph_output():
        return None
    if is_equal and all(_is_reader(user) and (dims or not _joins(user)) for user in users):
        return 0
    stacks = (
        _stacks(user) and (dims is not None or user.attributes.get_int("axis", 0) == 0)
        for user in users
    )
    return 0 if all(stacks) else None


def _is_reader(node: ir.Node) -> bool:
    return is_operator(node, READERS)


def _joins(node: ir.Node) -> bool:
    """Whether a reader concatenates along an axis of the elements."""
    return node.op_type == "ConcatFromSequence" and not node.attributes.get_int("new_axis", 0)


def _stacks(node: ir.Node) -> bool:
    is_join = is_operator(node, "ConcatFromSequence")
    return is_join and bool(node.attributes.get_int("new_axis", 0))


def _scan_output(body: ir.Graph, append: Append, typing: Typing) -> ir.Value:
    """Return what is appended, of a type that tells the dimensions that no trips would lose."""
    dims, dtype = typing.dims(append.element), typing.dtype(append.element)
    assert dtype is not None
    copied = ir.Node("", "Identity", [append.element], name=f"{append.insert.name}/Identity")
    scanned = copied.outputs[0]
    scanned.name, scanned.type = append.insert.outputs[0].name, ir.TensorType(dtype)
    if dims is not None:
        scanned.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in dims])
    body.append(copied)
    return scanned


def _sequence(builder: Builder, stacked: ir.Value, first: ir.Value, count: int) -> ir.Value:
    """Record the sequence of ``count`` first elements and the rows of a scan output."""
    sequence = builder.op("SplitToSequence", [stacked], {"axis": 0, "keepdims": 0})
    for i in range(count):
        position = builder.scalar(i)
        element = builder.op("SequenceAt", [first, position])
        sequence = builder.op("SequenceInsert", [sequence, element, position])
    return sequence


def _drop_state(
    node: ir.Node,
    body: ir.Graph,
    state: int,
    first: ir.Value,
    scanned: ir.Value | None = None,
    count: int = 0,
) -> None:
    """Write a Loop anew without a state, and with one scan output more if there is one.

    Without one, the state is the sequence that it starts with, for all that reads it.
    """
    graph = node.graph
    assert graph is not None
    last, inner = body.outputs.pop(1 + state), body.inputs.pop(2 + state)
    if scanned is None:
        inner.replace_all_uses_with(first)
    else:
        body.outputs.append(scanned)
    _remove_maker(last)
    builder = Builder.at(node)
    result = first
    outputs: list[ir.Value] = []
    if len(body.outputs) > 1:
        inputs = [v for i, v in enumerate(node.inputs) if i != 2 + state]
        if inputs[-1] is None:  # a last input that is left out is none
            inputs[-1] = builder.flag(True)
        outputs = loop_anew(builder, node, body, inputs)
    if scanned is not None:
        stacked = outputs.pop()
        stacked.type = scanned.type
        stacked.shape = None if scanned.shape is None else ir.Shape([None, *scanned.shape])
        result = _sequence(builder, stacked, first, count)
    elif node.outputs[state].is_graph_output():
        result = builder.op("Identity", [first])
    graph.insert_before(node, builder.nodes)
    outputs.insert(state, result)
    for before, after in zip(node.outputs, outputs, strict=True):
        read_instead(before, after, is_new=after is not first)
    graph.remove(node, safe=True)


def _drop_scan_output(value: ir.Value) -> None:
    """Write a Loop anew without a scan output that nothing reads, if it has another output."""
    node = value.producer()
    if node is None or node.op_type != "Loop" or is_used(value) or node.graph is None:
        return
    body, at = node.attributes["body"].as_graph(), list(node.outputs).index(value)
    if at < len(body.inputs) - 2 or len(node.outputs) == 1:
        return
    _remove_maker(body.outputs.pop(1 + at))
    builder = Builder.at(node)
    outputs = loop_anew(builder, node, body, node.inputs)
    node.graph.insert_before(node, builder.nodes)
    kept = [one for one in node.outputs if one is not value]
    for before, after in zip(kept, outputs, strict=True):
        read_instead(before, after, is_new=True)
    node.graph.remove(node, safe=True)


def _remove_maker(value: ir.Value) -> None:
    producer = value.producer()
    if producer is not None:
        remove_dead([producer])


def loop_anew(
    builder: Builder, node: ir.Node, body: ir.Graph, inputs: Sequence[ir.Value | None]
) -> list[ir.Value]:
    """Record a Loop of the body that another one had, with fewer lists; return its outputs."""
    attributes = dict(node.attributes)
    node.attributes.pop("body")
    new = builder.node("Loop", list(inputs), attributes, outputs=len(body.outputs) - 1)
    new.name, new.doc_string = node.name, node.doc_string
    new.metadata_props.update(node.metadata_props)
    new.meta.update(node.meta)
    note_tensors(new)
    return list(new.outputs)


def read_instead(before: ir.Value, after: ir.Value, *, is_new: bool) -> None:
    """Let all that reads a value read another one, which takes its name and type if it is new."""
    if is_new:
        after.type, after.shape, after.name = before.type, before.shape, before.name
        after.doc_string = before.doc_string
    before.replace_all_uses_with(after, replace_graph_outputs=True)
    before.name = None
