"""A Loop or Scan of a small known number of iterations as copies of its body."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.table import may_draw
from passes.graph.builder import Builder
from passes.graph.graphs import (
    constant_value,
    default_opset,
    is_operator,
    is_used,
    subgraphs,
    walk_nodes,
)
from passes.graph.made import operand, optional_operand, skip_identities
from passes.graph.node_copies import copy_body, forget_shapes
from passes.graph.opsets import to_opset_form
from passes.loops.copies import FEW_NODES, Copies, constants_apart, weight_of
from passes.maps.sequence_map import move_initializers
from passes.numbers.folding import Folder
from passes.reading.counts import check_range, count_trips
from passes.reading.facts import find_facts
from passes.reading.iterations import Collected, Iteration, read_iteration
from passes.reading.not_a_map import NotAMapError
from passes.sequence_operators import SEQUENCE_OPERATORS
from passes.typing import Typing

__all__ = [
    "MOST_NODES",
    "copy_iterations",
    "handed_to",
    "is_marked_for_copies",
    "mark_for_copies",
    "may_be_few",
    "stacked_rows",
    "value_now",
]

MOST_NODES = 2048
"""A Loop or Scan becomes so many nodes at most. Beyond that the model is too large to look at, and
to load."""


_KEY = "seqmap.copies"
"""Note on a node, which no file holds: copies of its body are faster than it is."""


def mark_for_copies(node: ir.Node) -> None:
    """Note that copies of its body shall take the place of a Loop or Scan."""
    node.meta[_KEY] = True


def is_marked_for_copies(node: ir.Node) -> bool:
    """Whether copies of its body shall take the place of a node."""
    return _KEY in node.meta


def may_be_few(node: ir.Node) -> bool:
    """Whether a Loop or Scan may become few nodes, as far as can be told without any types.

    Not one that holds sequences: the copies would make them one by one.
    """
    inside = [one for _, graph in subgraphs(node) for one in walk_nodes(graph)]
    if any(is_operator(one, SEQUENCE_OPERATORS) for one in inside):
        return False
    if node.op_type == "Loop":
        count = optional_operand(node, 0)
        known = None if count is None else constant_value(skip_identities(count))
        return known is not None and known.size == 1 and known.item() <= FEW_NODES
    scanned = operand(node, -1)
    axis = node.attributes.get_ints("scan_input_axes", [0])[-1]
    dims = () if scanned.shape is None else tuple(scanned.shape)
    size = dims[axis] if -len(dims) <= axis < len(dims) else None
    return isinstance(size, int) and size <= FEW_NODES


def copy_iterations(
    node: ir.Node, path: str, typing: Typing, model: ir.Model, *, few: bool
) -> Copies | None:
    """Record the copies of a body; None if the Loop is not to be unrolled.

    The number of iterations is known if it follows from constants, proven shapes and promises.

    Args:
        node: The Loop or Scan.
        path: Its path, for messages.
        typing: The proven typing of the model.
        model: The model; it gains the initializers of the body.
        few: Whether the copies must be few nodes.
    """
    most = FEW_NODES if few else MOST_NODES
    opset = default_opset(model)
    iteration = read_iteration(node)
    if iteration is None or may_draw(node, opset):
        return None
    folder = Folder(typing)
    count = _count(iteration, typing, folder)
    collected = [one for one in iteration.collected if is_used(one.result)]
    if count is None or count > most or (not count and collected):
        return None
    weight = count * weight_of(iteration.body, folder)
    if weight > most:
        return None
    move_initializers(iteration.body, model.graph)
    builder = Builder(path)
    results = _write(builder, iteration, collected, count, typing)
    to_opset_form(builder.nodes, opset)
    return Copies(node, path, builder, results, count, weight)


def _count(iteration: Iteration, typing: Typing, folder: Folder) -> int | None:
    """Return how often the body runs, None if that is not known."""
    facts = find_facts(iteration, typing)
    try:
        trips = count_trips(facts, typing)
        check_range(facts, trips)
    except NotAMapError:
        return None
    if trips.gate is not None:
        gate = folder.value(trips.gate)
        if gate is None or gate.size != 1:
            return None
        if not gate.reshape(()).item():
            return 0
    return trips.number.number


def _write(
    builder: Builder,
    iteration: Iteration,
    collected: Sequence[Collected],
    count: int,
    typing: Typing,
) -> list[tuple[ir.Value, ir.Value]]:
    """Record the copies; return each output of the node that is read, and its new value."""
    states = [carried.initial for carried in iteration.states]
    held: list[list[ir.Value]] = [[] for _ in collected]
    once: dict[ir.Value, ir.Value | None] = {}
    constants, others = constants_apart(iteration.body)
    builder.nodes.extend(copy_body(constants, once))
    for trip in range(count):
        values = once | handed_to(builder, iteration, trip, count, typing)
        values |= {c.inner: now for c, now in zip(iteration.states, states, strict=True)}
        copies = copy_body(others, values)
        forget_shapes(copies)
        builder.nodes.extend(copies)
        typing.copy(values)
        states = [value_now(values, carried.next) for carried in iteration.states]
        for row, one in zip(held, collected, strict=True):
            row.append(value_now(values, one.inner))
    results = [
        (carried.result, now)
        for carried, now in zip(iteration.states, states, strict=True)
        if is_used(carried.result)
    ]
    results += [
        (one.result, stacked_rows(builder, one, row))
        for one, row in zip(collected, held, strict=True)
    ]
    return results


def value_now(values: dict[ir.Value, ir.Value | None], value: ir.Value) -> ir.Value:
    """Return what stands for a value of the body in a copy, itself where it is from outside."""
    found = values.get(value, value)
    assert found is not None
    return found


def handed_to(
    builder: Builder, iteration: Iteration, trip: int, count: int, typing: Typing
) -> dict[ir.Value, ir.Value | None]:
    """Return what an iteration is handed beside the carried values.

    Args:
        builder: Records the nodes around the copies.
        iteration: What an iteration of the Loop or Scan is given.
        trip: The number of the iteration.
        count: How many there are.
        typing: The proven typing.

    Returns:
        The inputs of the body, and what stands for each.
    """
    values: dict[ir.Value, ir.Value | None] = {}
    for own, new in (
        (iteration.number, builder.scalar(trip)),
        (iteration.goes_on, builder.flag(True)),
    ):
        if own is not None:
            has_rank = typing.rank(own) == 1
            values[own] = builder.op("Reshape", [new, builder.ints(1)]) if has_rank else new
    for inner, source in iteration.scanned:
        place = count - 1 - trip if source.is_reversed else trip
        attributes = {"axis": source.axis}
        values[inner] = builder.op("Gather", [source.tensor, builder.scalar(place)], attributes)
    return values


def stacked_rows(builder: Builder, one: Collected, row: Sequence[ir.Value]) -> ir.Value:
    """Record the results of all iterations, side by side along a new axis."""
    axis = builder.ints(one.axis)
    rows = [builder.op("Unsqueeze", [value, axis]) for value in row]
    if one.is_reversed:
        rows.reverse()
    return rows[0] if len(rows) == 1 else builder.op("Concat", rows, {"axis": one.axis})
