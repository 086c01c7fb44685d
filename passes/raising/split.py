"""Writes what takes the place of a Loop with a recurrence: a Map, the Loop that is left, a Map."""

from __future__ import annotations

import onnx_ir as ir

from passes.decisions import Code, Reason
from passes.graph.graphs import is_used
from passes.raising.loop_parts import LoopParts, find_rounding
from passes.raising.rest import write_rest
from passes.raising.written import Written, own_initializers
from passes.reading.facts import LoopFacts
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.read_loops import read_part, type_rows
from passes.reading.stages import Stage
from passes.reading.trips import Trips
from passes.site import Rest
from passes.typing import Typings

__all__ = ["write_parts"]


def write_parts(
    facts: LoopFacts,
    trips: Trips,
    parts: LoopParts,
    count: int | str,
    path: str,
    model: ir.Model,
    reason: Reason,
    written: Written,
) -> tuple[list[LoopReading], Rest]:
    """Record the Maps before and behind what is left of a Loop, and the Loop.

    Args:
        facts: The Loop or Scan.
        trips: How often it runs.
        parts: What of it runs where.
        count: The number of iterations as a dimension.
        path: Names the Loop.
        model: The model.
        reason: Why it is no map.
        written: Gains all that takes its place.

    Returns:
        The maps, and what is left of the Loop.

    Raises:
        NotAMapError: One of them is no map, or the model's opset lacks what it needs.
    """
    node, typings = facts.iteration.node, written.typings
    graph = node.graph
    assert graph is not None
    original = node.attributes["body"].as_graph()
    rounding = find_rounding(parts.moved, written.opset)
    if rounding is not None and written.options.exact:
        raise NotAMapError(Code.EXACT, "it would round otherwise", rounding)
    rows = {value: ir.Value(name=f"{value.name}.rows") for value in parts.rows}
    left = {value: ir.Value(name=f"{value.name}.rows") for value in parts.rest}

    def read(stage: Stage) -> list[LoopReading]:
        found = read_part(facts, trips, graph, path, typings, model, stage)
        return found.maps

    is_ahead = bool(parts.before or rows)
    ahead = read(Stage(results=parts.before, rows=rows)) if is_ahead else []
    # the body of a map knows what is the same in all iterations, which that of the Loop does not
    made = {r.value: one.site.body.outputs[r.output] for one in ahead for r in one.site.results}
    types = {tensor: made.get(tensor, value) for value, tensor in rows.items()}
    for value in types.values():
        _check_one_shape(value, typings)
    type_rows(types | {tensor: value for value, tensor in left.items()}, count, typings)
    behind = read(Stage(results=parts.after, given=left | rows)) if parts.after else []
    written.write_finals((ahead or behind)[0])
    for one in ahead:
        written.write_map(one, original)
    sources = (source for one in behind for _, source in one.site.elements)
    tensors = {cut.tensor for s in sources if (cut := s.as_slices) is not None}
    given = {value: written.values[tensor] for value, tensor in rows.items()}
    collected = [value for value, tensor in left.items() if tensor in tensors]
    for value in collected:
        _check_one_shape(value, typings)
    results = {v for v in node.outputs if is_used(v)} - parts.before - parts.after
    loop, values = write_rest(
        written.builder,
        facts,
        results - written.values.keys(),
        given,
        collected,
        typings,
    )
    typings.copy(own_initializers(loop.attributes["body"].as_graph(), original))
    written.loops.append(loop)
    outputs = {left.get(old, old): new for old, new in values.items()}
    typings.copy(outputs)
    written.values |= outputs
    for one in behind:
        written.write_map(one, original)
    misfit = written.misfit()
    if misfit is not None:
        raise NotAMapError(Code.OPSET, misfit)
    return [*ahead, *behind], Rest(loop, reason, len(parts.moved), rounding is not None)


def _check_one_shape(value: ir.Value, typings: Typings) -> None:
    """Check that a value has one shape in all iterations, as what is collected must have.

    Raises:
        NotAMapError: It is not proven.
    """
    dims = typings.proven_dims(value)
    if dims is None or None in dims:
        detail = f"'{value.name}' is not proven to have one shape in all iterations"
        raise NotAMapError(Code.RAGGED, detail, value.producer())
