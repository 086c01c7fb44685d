"""Finds what iterations read of a tensor at the one place, named by a key, that they write to."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.columns import find_columns
from passes.carried.joins import find_join
from passes.carried.keyed import KeyedRead
from passes.carried.pattern import ASK_SHAPE, Term, dependent_values
from passes.carried.reductions import TYPES
from passes.carried.rereads import is_shape_read, written_row
from passes.graph.graphs import is_operator, walk_nodes
from passes.graph.made import made_by, operand, skip_identities, through
from passes.reading.facts import LoopFacts
from passes.reading.integers import TRIP
from passes.reading.iterations import Carried
from passes.typing.value_types import Typing, ValueType

__all__ = ["find_keyed_reads", "is_read_elsewhere"]

_AXES = ("Unsqueeze", "Squeeze", "Reshape")
"""Operators that give one number another shape."""


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
    if scatter.attributes.get_string("reduction", "none") != "none":
        return []
    if skip_identities(operand(scatter, 0)) is not carried.inner:
        return []
    key = _key(operand(scatter, 1), facts)
    if key is None or key in dependent_values(body, carried.inner):
        return []
    number = facts.evaluator.number(key)
    if number is not None and (number.coefficient(TRIP) or number.number is not None):
        return []  # a counted place, which tells more
    row = written_row(operand(scatter, 2), body, typing, dims[1:])
    written = _written(row, key, carried, facts, dtype)
    if written is None:
        return []
    found = []
    for node in _readers(carried, facts):
        if node is scatter or is_operator(node, ASK_SHAPE) or is_shape_read(node):
            continue
        if not _reads_at(node, key, facts):
            return []
        value = node.outputs[0]
        initial = ir.Value(name=f"{value.name}.first")
        typing.set(initial, ValueType(known, dims[1:]))
        state = Carried(value, initial, row, ir.Value(name=f"{value.name}.last"))
        is_after = skip_identities(operand(node, 0)) is not carried.inner
        found.append(dataclasses.replace(written, carried=state, is_after=is_after))
    return found


def is_read_elsewhere(read: KeyedRead) -> bool:
    """Whether more reads it than what joins a row to it and writes that back."""
    value, row = read.carried.inner, read.carried.next.producer()
    uses = (use.node for use in value.uses())
    return value.is_graph_output() or any(
        node is not row and not is_operator(node, ASK_SHAPE) for node in uses
    )


def _key(indices: ir.Value, facts: LoopFacts) -> ir.Value | None:
    """Return the number that names the one place of a ScatterND along the first axis."""
    body, evaluator = facts.iteration.body, facts.evaluator
    columns = find_columns(indices, body, evaluator)
    if columns is not None:
        is_key = len(columns) == 1 and columns[0].is_point and not columns[0].is_constant
        return through(columns[0].root, _AXES, body) if is_key else None
    dims = evaluator.dims(indices)
    is_one = bool(dims) and all(dim == 1 for dim in dims or ())
    return through(indices, _AXES, body) if is_one else None


def _readers(carried: Carried, facts: LoopFacts) -> list[ir.Node]:
    """Return the nodes that read the carried tensor, or what it is behind the write."""
    whole = {carried.inner, skip_identities(carried.next)}
    nodes = walk_nodes(facts.iteration.body)
    return [
        node
        for node in nodes
        if not is_operator(node, "Identity")
        and any(v is not None and skip_identities(v) in whole for v in node.inputs)
    ]


def _reads_at(node: ir.Node, key: ir.Value, facts: LoopFacts) -> bool:
    """Whether a node of the body reads one row, at a key."""
    body = facts.iteration.body
    if not is_operator(node, "Gather") or node.graph is not body:
        return False
    index = operand(node, 1)
    is_row = node.attributes.get_int("axis", 0) == 0 and facts.evaluator.rank(index) == 0
    return is_row and through(index, _AXES, body) is key


def _written(
    row: ir.Value, key: ir.Value, carried: Carried, facts: LoopFacts, dtype: ir.DataType
) -> KeyedRead | None:
    """Return what is read at a key, by what is written there; None if nothing tells it."""
    body = facts.iteration.body
    if row not in dependent_values(body, carried.inner):
        return KeyedRead(carried, (Term(key), Term(row)), carried, dtype)
    joins = find_join(row, carried.inner, body, dtype)
    node = None if joins is None else made_by(joins.read, "Gather", body=body)
    if joins is None or node is None or not _reads_at(node, key, facts):
        return None
    if skip_identities(operand(node, 0)) is not carried.inner:
        return None
    family = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}[joins.reduction]
    if dtype not in TYPES[family]:
        return None
    delta, nodes = joins.signed()
    return KeyedRead(carried, (Term(key), Term(delta)), carried, dtype, family, nodes=tuple(nodes))
