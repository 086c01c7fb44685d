"""Finds what iterations read of a tensor at the one place, named by a key, that they write to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.carried.common.selections import Selection, find_replacing
from passes.carried.pattern import ASK_SHAPE, Term, added, added_integers, dependent_values
from passes.carried.places.joins import find_join
from passes.carried.places.keys import AXES, Key, find_key
from passes.carried.rereads.keyed import KeyedRead
from passes.carried.rereads.rereads import is_shape_read, read_row, written_row
from passes.carried.totals.reductions import TYPES
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import axes_of, made_by, operand, skip_identities, through
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import FAR
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative
from passes.numbers.slice_bounds import cut_of
from passes.reading.facts import LoopFacts
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing, ValueType

__all__ = ["find_keyed_reads", "is_read_elsewhere"]

_FAMILIES = {"none": None, "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
"""For each reduction of a scatter the operator that joins two rows."""


def find_keyed_reads(carried: Carried, facts: LoopFacts, typing: Typing) -> list[KeyedRead]:
    """Return what an iteration reads at its key, as carried values of their own.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains what each begins with.
    """
    body = facts.iteration.body
    dims, dtype = typing.dims(carried.initial), typing.dtype(carried.initial)
    mask = find_replacing(carried.next, carried.inner, body)
    if mask is not None and not _is_flagged(mask, carried, facts):
        return []
    value = carried.next if mask is None else mask.chosen
    scatter = made_by(value, "ScatterND", body=body)
    known = typing[carried.initial].type
    if scatter is None or not dims or dtype is None or not isinstance(known, ir.TensorType):
        return []
    if skip_identities(operand(scatter, 0)) is not carried.inner:
        return []
    key = find_key(scatter, carried, facts)
    if key is None or key.root in dependent_values(body, carried.inner):
        return []
    row, made = _row_of(scatter, key, body, typing, dims[1:])
    written = _written(row, scatter, key, carried, facts, dtype)
    if written is None:
        return []
    written = dataclasses.replace(written, nodes=(*made, *written.nodes))
    if mask is not None:
        written = _under(written, mask)
    found, writers = [], {scatter, skip_identities(carried.next).producer()}
    for node in _readers(carried, facts):
        if node in writers or is_operator(node, ASK_SHAPE) or is_shape_read(node):
            continue
        values = _read_at(node, key, facts)
        if not values:
            return []
        is_after = skip_identities(operand(node, 0)) is not carried.inner
        if is_after and (written.is_checked or written.is_flagged):
            return []  # what was there before, if nothing is written
        for value in values:
            state = read_row(value, row, typing, ValueType(known, dims[1:]))
            found.append(dataclasses.replace(written, carried=state, is_after=is_after))
    return found


def _is_flagged(mask: Selection, carried: Carried, facts: LoopFacts) -> bool:
    """Whether one flag, which depends on no row, says if an iteration writes."""
    if mask.branches or mask.weighs or facts.evaluator.dims(mask.condition) != ():
        return False
    return mask.condition not in dependent_values(facts.iteration.body, carried.inner)


def _under(written: KeyedRead, mask: Selection) -> KeyedRead:
    """Return what is read where a flag says which iterations write."""
    turned = [added("Not", [mask.condition])] if mask.is_turned else []
    flag = turned[0].outputs[0] if turned else mask.condition
    terms, nodes = (*written.terms, Term(flag)), (*written.nodes, *turned)
    return dataclasses.replace(written, terms=terms, nodes=nodes, is_flagged=True)


def _row_of(
    scatter: ir.Node,
    key: Key,
    body: ir.Graph,
    typing: Typing,
    dims: Sequence[int | str | None],
) -> tuple[ir.Value, list[ir.Node]]:
    """Return the row that a ScatterND writes, and what computes it."""
    updates = operand(scatter, 2)
    if key.checked is not None:
        updates = key.checked.picked(updates, operand(scatter, 1)) or updates
    row = written_row(updates, body, typing, dims)
    own = typing.dims(row)
    if own is None or len(own) != len(dims) + 1:
        return row, []
    first = added_integers(0)
    nodes = [first, added("Squeeze", [row, first.outputs[0]])]
    return nodes[-1].outputs[0], nodes


def is_read_elsewhere(read: KeyedRead) -> bool:
    """Whether more is computed of what is read than what is written back."""
    pending, seen = [read.carried.inner], set[ir.Value]()
    for value in pending:
        if value.is_graph_output():
            return True
        for use in value.uses():
            writes = use.node.inputs[0] is read.tensor.inner
            if not (writes and is_operator(use.node, "ScatterND")) and value not in seen:
                pending += use.node.outputs
        seen.add(value)
    return False


def _readers(carried: Carried, facts: LoopFacts) -> list[ir.Node]:
    """Return the nodes that read the carried tensor, or what it is behind the write."""
    whole = {carried.inner, skip_identities(carried.next)}
    nodes = walk_nodes(facts.iteration.body)
    return [
        node
        for node in nodes
        if not (node.outputs and skip_identities(node.outputs[0]) in whole - set(node.outputs))
        and any(v is not None and skip_identities(v) in whole for v in node.inputs)
    ]


def _read_at(node: ir.Node, key: Key, facts: LoopFacts) -> list[ir.Value]:
    """Return the row that a node of the body reads at a key, by what it becomes; none if not."""
    body, evaluator = facts.iteration.body, facts.evaluator
    if not is_operator(node, ("Gather", "Slice")) or node.graph is not body:
        return []
    if node.op_type == "Gather":
        index = operand(node, 1)
        is_row = node.attributes.get_int("axis", 0) == 0 and evaluator.rank(index) == 0
        is_key = (
            key.checked.root(index) if key.checked else through(index, AXES, body)
        ) is key.root
        is_key = is_key or (key.number is not None and evaluator.number(index) == key.number)
        return [node.outputs[0]] if is_row and is_key else []
    is_cut = key.checked is not None and key.checked.read_row(node) is key.root
    if not (is_cut or _cuts_at(node, key, evaluator)):
        return []
    squeezed = [use.node for use in node.outputs[0].uses()]
    if not all(is_operator(n, "Squeeze") and axes_of(n) == [0] for n in squeezed):
        return []
    if is_cut and any(n.graph is not body for n in squeezed):
        return []
    return [] if node.outputs[0].is_graph_output() else [n.outputs[0] for n in squeezed]


def _cuts_at(node: ir.Node, key: Key, evaluator: Evaluator) -> bool:
    """Whether a Slice takes the one row at a key; TensorFlow's takes steps that go far beyond."""
    cut = cut_of(node, evaluator)
    if cut is None or key.number is None or cut.axis != 0 or cut.start != key.number:
        return False
    if cut.step == Linear(1):
        return cut.end == cut.start + 1
    is_one = (cut.step.number or 0) >= FAR and is_nonnegative(cut.end - FAR)
    return is_one and evaluator.notes_far()


def _written(
    row: ir.Value,
    scatter: ir.Node,
    key: Key,
    carried: Carried,
    facts: LoopFacts,
    dtype: ir.DataType,
) -> KeyedRead | None:
    """Return what is read at a key, by what is written there; None if nothing tells it."""
    body = facts.iteration.body
    reduction = scatter.attributes.get_string("reduction", "none")
    terms = (Term(key.value), Term(row))
    is_checked = key.checked is not None
    if operand(scatter, 2) not in dependent_values(body, carried.inner):
        family = _FAMILIES[reduction]
        if family is not None and dtype not in TYPES[family]:
            return None
        return KeyedRead(carried, terms, carried, dtype, family, is_checked=is_checked)
    joins = find_join(row, carried.inner, body, dtype) if reduction == "none" else None
    value = None if joins is None else skip_identities(joins.read)
    node = None if value is None else made_by(value, "Gather", "Squeeze", body=body)
    if node is not None and node.op_type == "Squeeze":
        node = made_by(operand(node, 0), "Slice", body=body)
    if joins is None or node is None or value not in _read_at(node, key, facts):
        return None
    if skip_identities(operand(node, 0)) is not carried.inner:
        return None
    family = _FAMILIES[joins.reduction]
    if family is None or dtype not in TYPES[family]:
        return None
    delta, nodes = joins.signed()
    terms = (Term(key.value), Term(delta))
    return KeyedRead(
        carried, terms, carried, dtype, family, nodes=tuple(nodes), is_checked=is_checked
    )
