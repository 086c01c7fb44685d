"""What takes the place of a Loop with a recurrence: a Map, the Loop that is left, a Map.

The Map in front computes rows that the Loop reads; the Map behind reads what the Loop collects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.graph.graphs import is_used
from passes.raising.behind import check_rounding
from passes.raising.loop_parts import LoopParts, find_parts, find_rounding, row_count
from passes.raising.rest import write_rest
from passes.raising.written import Written, own_initializers
from passes.reading.body import BodyWriter
from passes.reading.facts import LoopFacts
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.read_loops import find_loop, read_part, type_rows
from passes.reading.stages import Stage
from passes.reading.trip_count import TripCount
from passes.site import Rest
from passes.typing import Typings

__all__ = ["LoopSplit", "ways_to_split", "write_parts"]


@dataclasses.dataclass(frozen=True)
class LoopSplit:
    """A way to split a Loop that holds a recurrence.

    Attributes:
        facts: The Loop or Scan.
        trips: How often it runs.
        parts: What of it runs where.
        count: The number of iterations as a dimension.
    """

    facts: LoopFacts
    trips: TripCount
    parts: LoopParts
    count: int | str


def ways_to_split(node: ir.Node, path: str, typings: Typings, opset: int) -> Iterator[LoopSplit]:
    """Yield the ways in which it pays to split a Loop or Scan, the best first."""
    try:
        facts, trips = find_loop(node, typings, opset, rereads=False)
    except NotAMapError:
        return
    needs = BodyWriter(facts, trips, typings, path, None, Stage()).needs
    for one in facts.iteration.body:
        needs.read(one)
    count = row_count(facts, trips, needs, typings)
    for patterns in (True, False):
        for parts in find_parts(facts, trips, needs, typings.proven, opset, patterns=patterns):
            yield LoopSplit(facts, trips, parts, count)


def write_parts(
    split: LoopSplit, path: str, model: ir.Model, reason: Reason, written: Written
) -> tuple[list[LoopReading], Rest]:
    """Record the Maps before and behind what is left of a Loop, and the Loop.

    Args:
        split: The Loop or Scan, and what of it runs where.
        path: Names the Loop.
        model: The model.
        reason: Why it is no map.
        written: Gains all that takes its place.

    Returns:
        The maps, and what is left of the Loop.

    Raises:
        NotAMapError: One of them is no map, or the model's opset lacks what it needs.
    """
    facts, parts, typings = split.facts, split.parts, written.typings
    node = facts.iteration.node
    graph = node.graph
    assert graph is not None
    original = node.attributes["body"].as_graph()
    rounding = find_rounding(parts.moved, written.opset)
    if rounding is not None:
        check_rounding(written.options, "it would round otherwise", rounding)
    rows = {value: ir.Value(name=f"{value.name}.rows") for value in parts.rows}
    left = {value: ir.Value(name=f"{value.name}.rows") for value in parts.rest}

    def read(stage: Stage) -> list[LoopReading]:
        return read_part(facts, split.trips, graph, path, typings, model, stage).maps

    ahead = read(Stage(results=parts.before, rows=rows)) if parts.before or rows else []
    _type_between(ahead, rows, left, split.count, typings)
    behind = read(Stage(results=parts.after, given=left | rows)) if parts.after else []
    written.write_finals((ahead or behind)[0])
    for one in ahead:
        written.write_map(one, original)
    given = {value: written.values[tensor] for value, tensor in rows.items()}
    loop = _write_rest(split, given, left, behind, written)
    for one in behind:
        written.write_map(one, original)
    misfit = written.misfit()
    if misfit is not None:
        raise NotAMapError(Code.OPSET, misfit)
    return [*ahead, *behind], Rest(loop, reason, len(parts.moved), rounding is not None)


def _type_between(
    ahead: Sequence[LoopReading],
    rows: Mapping[ir.Value, ir.Value],
    left: Mapping[ir.Value, ir.Value],
    count: int | str,
    typings: Typings,
) -> None:
    """Enter the types of the tensors that one part hands on to another.

    Args:
        ahead: The map in front.
        rows: Values of the body that it computes for the other parts, each with its tensor.
        left: Values that the Loop goes on computing, each with the tensor that collects it.
        count: The number of iterations as a dimension.
        typings: Both typings; they gain the tensors.

    Raises:
        NotAMapError: Rows are not proven to have one shape in all iterations.
    """
    # The body of a map knows what is the same in all iterations, which that of the Loop does not.
    made = {r.value: one.site.body.outputs[r.output] for one in ahead for r in one.site.results}
    types = {tensor: made.get(tensor, value) for value, tensor in rows.items()}
    for value in types.values():
        _check_one_shape(value, typings)
    type_rows(types | {tensor: value for value, tensor in left.items()}, count, typings)


def _write_rest(
    split: LoopSplit,
    given: Mapping[ir.Value, ir.Value],
    left: Mapping[ir.Value, ir.Value],
    behind: Sequence[LoopReading],
    written: Written,
) -> ir.Node:
    """Record the Loop with what is left of its body.

    Args:
        split: The Loop or Scan.
        given: Values of the body, each with the tensor that the Loop reads it from.
        left: Values that the Loop goes on computing, each with the tensor that collects it.
        behind: The map behind, which reads some of these tensors.
        written: Gains the Loop.

    Raises:
        NotAMapError: What it collects is not proven to have one shape in all iterations.
    """
    facts, parts, typings = split.facts, split.parts, written.typings
    node = facts.iteration.node
    sources = (source for one in behind for _, source in one.site.elements)
    tensors = {cut.tensor for s in sources if (cut := s.as_slices) is not None}
    collected = [value for value, tensor in left.items() if tensor in tensors]
    for value in collected:
        _check_one_shape(value, typings)
    results = {v for v in node.outputs if is_used(v)} - parts.before - parts.after
    own = results - written.values.keys()
    loop, values = write_rest(written.builder, facts, own, given, collected, typings)
    original = node.attributes["body"].as_graph()
    typings.copy(own_initializers(loop.attributes["body"].as_graph(), original))
    written.loops.append(loop)
    outputs = {left.get(old, old): new for old, new in values.items()}
    typings.copy(outputs)
    written.values |= outputs
    return loop


def _check_one_shape(value: ir.Value, typings: Typings) -> None:
    """Check that a value has one shape in all iterations, as what is collected must have.

    Raises:
        NotAMapError: It is not proven.
    """
    dims = typings.proven_dims(value)
    if dims is None or None in dims:
        detail = f"'{value.name}' is not proven to have one shape in all iterations"
        raise NotAMapError(Code.RAGGED, detail, value.producer())
