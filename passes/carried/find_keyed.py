"""Finds what iterations read of a tensor at the one place, named by a key, that they write to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from passes.carried.checked_places import CheckedPlaces
from passes.carried.columns import find_columns
from passes.carried.joins import find_join
from passes.carried.keyed import KeyedRead
from passes.carried.pattern import ASK_SHAPE, Term, added, dependent_values
from passes.carried.reductions import TYPES
from passes.carried.rereads import is_shape_read, read_row, written_row
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import axes_of, made_by, operand, skip_identities, through
from passes.reading.evaluate import Evaluator
from passes.reading.facts import LoopFacts
from passes.reading.integer_reads import FAR
from passes.reading.integers import TRIP, Linear
from passes.reading.iterations import Carried
from passes.reading.number_order import is_nonnegative
from passes.reading.slice_bounds import cut_of
from passes.typing.value_types import Typing, ValueType

__all__ = ["find_keyed_reads", "is_read_elsewhere"]

_AXES = ("Unsqueeze", "Squeeze", "Reshape")
"""Operators that give one number another shape."""
_FAMILIES = {"none": None, "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
"""For each reduction of a scatter the operator that joins two rows."""


@dataclasses.dataclass(frozen=True)
class _Key:
    """The number that names a place.

    Attributes:
        value: A value of the body that holds it, of whatever shape.
        root: What it was before it was given that shape.
        number: The number, where it is known: an entry of a vector.
        checked: Reads the places where a row is written only if there is such a place.
    """

    value: ir.Value
    root: ir.Value
    number: Linear | None
    checked: CheckedPlaces | None = None


def find_keyed_reads(carried: Carried, facts: LoopFacts, typing: Typing) -> list[KeyedRead]:
    """Return what an iteration reads at its key, as carried values of their own.

    Args:
        carried: The carried tensor.
        facts: The Loop or Scan.
        typing: The proven typing; it gains what each begins with.
    """
    body = facts.iteration.body
    dims, dtype = typing.dims(carried.initial), typing.dtype(carried.initial)
    scatter = made_by(carried.next, "ScatterND", body=body)
    known = typing[carried.initial].type
    if scatter is None or not dims or dtype is None or not isinstance(known, ir.TensorType):
        return []
    if skip_identities(operand(scatter, 0)) is not carried.inner:
        return []
    key = _key(operand(scatter, 1), facts) or _checked_key(scatter, carried, facts, typing)
    if key is None or key.root in dependent_values(body, carried.inner):
        return []
    row, made = _row_of(scatter, key, body, typing, dims[1:])
    written = _written(row, scatter, key, carried, facts, dtype)
    if written is None:
        return []
    written = dataclasses.replace(written, nodes=(*made, *written.nodes))
    found = []
    for node in _readers(carried, facts):
        if node is scatter or is_operator(node, ASK_SHAPE) or is_shape_read(node):
            continue
        values = _read_at(node, key, facts)
        if not values:
            return []
        is_after = skip_identities(operand(node, 0)) is not carried.inner
        if is_after and key.checked is not None:
            return []  # what was there before, if nothing is written
        for value in values:
            state = read_row(value, row, typing, ValueType(known, dims[1:]))
            found.append(dataclasses.replace(written, carried=state, is_after=is_after))
    return found


def _row_of(
    scatter: ir.Node,
    key: _Key,
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
    first = added("Constant", [], {"value": ir.tensor(np.array([0], np.int64))})
    nodes = [first, added("Squeeze", [row, first.outputs[0]])]
    return nodes[-1].outputs[0], nodes


def is_read_elsewhere(read: KeyedRead) -> bool:
    """Whether more reads it than what joins a row to it and writes that back."""
    value, row = read.carried.inner, read.carried.next.producer()
    uses = (use.node for use in value.uses())
    return value.is_graph_output() or any(
        node is not row and not is_operator(node, ASK_SHAPE) for node in uses
    )


def _key(indices: ir.Value, facts: LoopFacts) -> _Key | None:
    """Return the number that names the one place of a ScatterND along the first axis."""
    body, evaluator = facts.iteration.body, facts.evaluator
    columns = find_columns(indices, body, evaluator) or ()
    dims, value = evaluator.dims(indices), None
    if len(columns) == 1 and columns[0].is_point and not columns[0].is_constant:
        value = columns[0].root
    elif evaluator.number(indices) is not None or (dims and all(dim == 1 for dim in dims)):
        value = indices
    if value is None:
        return None
    number = evaluator.number(value)
    if _is_counted(number):
        return None  # which tells more
    return _Key(value, through(value, _AXES, body), number)


def _is_counted(number: Linear | None) -> bool:
    """Whether a place is one that the number of the iteration tells, or the same in all."""
    return number is not None and bool(number.coefficient(TRIP) or number.number is not None)


def _checked_key(
    scatter: ir.Node, carried: Carried, facts: LoopFacts, typing: Typing
) -> _Key | None:
    """Return the number that names the one place of a ScatterND if there is such a place."""
    checked = CheckedPlaces(facts, typing)
    value = checked.unchecked(operand(scatter, 1), carried.inner)
    if value is None or _is_counted(facts.evaluator.number(value)):
        return None
    if operand(scatter, 2) in dependent_values(facts.iteration.body, carried.inner):
        return None  # what is joined to what is read
    root = checked.root(value)
    return _Key(root, root, None, checked)


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


def _read_at(node: ir.Node, key: _Key, facts: LoopFacts) -> list[ir.Value]:
    """Return the row that a node of the body reads at a key, by what it becomes; none if not."""
    body, evaluator = facts.iteration.body, facts.evaluator
    if not is_operator(node, ("Gather", "Slice")) or node.graph is not body:
        return []
    if node.op_type == "Gather":
        index = operand(node, 1)
        is_row = node.attributes.get_int("axis", 0) == 0 and evaluator.rank(index) == 0
        is_key = (
            key.checked.root(index) if key.checked else through(index, _AXES, body)
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


def _cuts_at(node: ir.Node, key: _Key, evaluator: Evaluator) -> bool:
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
    key: _Key,
    carried: Carried,
    facts: LoopFacts,
    dtype: ir.DataType,
) -> KeyedRead | None:
    """Return what is read at a key, by what is written there; None if nothing tells it."""
    body = facts.iteration.body
    reduction = scatter.attributes.get_string("reduction", "none")
    terms = (Term(key.value), Term(row))
    if operand(scatter, 2) not in dependent_values(body, carried.inner):
        family = _FAMILIES[reduction]
        if family is not None and dtype not in TYPES[family]:
            return None
        is_checked = key.checked is not None
        if is_checked and family is not None:
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
    return KeyedRead(carried, terms, carried, dtype, family, nodes=tuple(nodes))
