"""Reads a Loop or Scan that is a map into a map site."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping

import onnx_ir as ir

from passes.batching import table
from passes.batching.opening import open_functions
from passes.carried.common.in_branch import failing_apart
from passes.carried.states import with_patterns
from passes.decisions import Code
from passes.graph.graphs import default_opset, is_default_domain, walk_nodes
from passes.graph.opsets import to_opset_form
from passes.reading.body import BodyWriter
from passes.reading.counts import check_range, count_trips
from passes.reading.cut_numbers import as_offsets_or_data, check_bounds
from passes.reading.facts import LoopFacts, find_facts
from passes.reading.iterations import read_iteration
from passes.reading.loop_reading import LoopReading
from passes.reading.needs import Needs
from passes.reading.not_a_map import NotAMapError, SpeculationError
from passes.reading.stages import Stage, Whole
from passes.reading.trip_count import TripCount
from passes.reading.types import type_body
from passes.site import GuardCheck
from passes.typing.value_types import Typings, ValueType

__all__ = ["find_loop", "read_loop", "read_part", "type_rows"]

_OLDEST_OPSET = 11


def find_loop(
    node: ir.Node, typings: Typings, opset: int, *, rereads: bool = True
) -> tuple[LoopFacts, TripCount]:
    """Find what a Loop or Scan carries, and how often it runs its body.

    Args:
        node: The Loop or Scan.
        typings: Both typings.
        opset: Version of ONNX's operators.
        rereads: See `with_patterns`.

    Raises:
        NotAMapError: That is not known.
    """
    if opset < _OLDEST_OPSET:
        raise NotAMapError(Code.OPSET, f"Loops and Scans are read from opset {_OLDEST_OPSET} on")
    iteration = read_iteration(node)
    if iteration is None:
        raise NotAMapError(Code.NOT_A_MAP, "its inputs and outputs do not fit its body")
    facts = find_facts(iteration, typings.proven)
    with contextlib.suppress(NotAMapError):
        facts.evaluator.last = count_trips(facts, typings.proven).bound - 1
    facts = with_patterns(facts, typings.proven, rereads=rereads)
    return facts, count_trips(facts, typings.proven)


def read_loop(
    node: ir.Node,
    graph: ir.Graph,
    path: str,
    typings: Typings,
    model: ir.Model,
    opset: int,
    check: GuardCheck | None = None,
) -> LoopReading:
    """Read a Loop or Scan.

    The body of the map is a copy that reads elements instead of what an iteration is handed; it
    stands in no graph. Functions without a rule are opened in
    it, which may add to the domains that the model imports.

    Args:
        node: The Loop or Scan.
        graph: The graph that it stands in.
        path: Its path, for messages.
        typings: Both typings; they gain the values of the new body.
        model: The model.
        opset: Version of ONNX's operators.
        check: ``SIZES``: take tensors that are cut by the same bounds as equally long.
            ``SLICES``: take slices by entries of a vector as equally long. The condition of the
            map says whether they are, unless that is proven.

    Raises:
        NotAMapError: It is no map.
    """

    def read() -> LoopReading:
        facts, trips = find_loop(node, typings, opset)
        return read_part(facts, trips, graph, path, typings, model, Stage(), check)

    return as_offsets_or_data(lambda: _with_branches_apart(read))


def _with_branches_apart(read: Callable[[], LoopReading]) -> LoopReading:
    """Read a Loop or Scan with the nodes of branches apart that may fail in other iterations."""
    apart: set[ir.Node] = set()
    while True:
        try:
            with failing_apart(apart):
                return read()
        except SpeculationError as error:
            if apart.issuperset(error.failing):
                raise
            apart.update(error.failing)


def read_part(
    facts: LoopFacts,
    trips: TripCount,
    graph: ir.Graph,
    path: str,
    typings: Typings,
    model: ir.Model,
    stage: Stage,
    check: GuardCheck | None = None,
) -> LoopReading:
    """Read what a Loop or Scan gives of some results, from rows that are given; see `read_loop`.

    Raises:
        NotAMapError: It is no map.
    """

    def writer(stage: Stage) -> BodyWriter:
        return BodyWriter(facts, trips, typings, path, check, stage)

    opset = default_opset(model)
    ahead = writer(stage).find_ahead(graph)
    if not ahead:
        return _read(writer(stage), graph, model, opset)
    earlier: list[LoopReading] = []
    given, wholes = dict(stage.given), dict(stage.wholes)
    for layer in _layers(writer, stage, ahead, graph):
        one = writer(
            dataclasses.replace(stage, ahead=layer, given=given, wholes=wholes, is_first=True)
        )
        first = _read(one, graph, model, opset)
        wholes |= _type_first(first, one.needs, trips, typings)
        earlier.append(first)
        ahead |= layer
        given |= one.needs.rows
    last = writer(dataclasses.replace(stage, ahead=ahead, given=given, wholes=wholes))
    return dataclasses.replace(_read(last, graph, model, opset), earlier=tuple(earlier))


def _layers(
    writer: Callable[[Stage], BodyWriter],
    stage: Stage,
    ahead: frozenset[ir.Value],
    graph: ir.Graph,
) -> list[frozenset[ir.Value]]:
    """Return which carried values each of several maps computes before the last one reads them.

    ``d_i = x_i - p_i`` with the last value ``p`` comes before the sum ``s = s + d_i``.

    Raises:
        NotAMapError: Two of them depend on each other.
    """
    layers: list[frozenset[ir.Value]] = [ahead]
    while wanted := writer(dataclasses.replace(stage, ahead=layers[0], is_first=True)).find_ahead(
        graph
    ):
        if wanted in layers:
            names = ", ".join(sorted(repr(v.name) for v in wanted))
            if len(wanted) == 1:
                raise NotAMapError(Code.RECURRENCE, f"{names} depends on its own past")
            raise NotAMapError(Code.RECURRENCE, f"{names}: each depends on the past of another")
        layers.insert(0, wanted)
    done: set[ir.Value] = set()
    found = []
    for layer in layers:
        found.append(layer - done)
        done |= layer
    return [layer for layer in found if layer]


def _type_first(
    first: LoopReading, needs: Needs, trips: TripCount, typings: Typings
) -> dict[ir.Value, Whole]:
    """Enter the types of what a map computes for those behind it; return the whole tensors.

    Raises:
        NotAMapError: What an iteration sees of one of them is not known.
    """
    site = first.site
    rows = {r.value: site.body.outputs[r.output] for r in site.results}
    rows |= {b.result: b.pattern.carried.initial for b in first.behind}
    count: int | str | None = trips.static
    if count is None:
        count = site.elements[0][1].dimension(typings.proven)
    type_rows({tensor: rows[tensor] for tensor in needs.rows.values()}, count, typings)
    outputs = {r.value: site.body.outputs[r.output] for r in site.results}
    wholes = {}
    for inner, one in needs.wholes.items():
        seen = needs.facts.seen[inner].typed(typings.proven[outputs[one.terms[-1]]])
        known = seen.type_of(typings.proven[seen.initial], count)
        for typing in (typings.declared, typings.proven):
            typing.set(one.result, known)
        wholes[inner] = Whole(one.result, seen)
    return wholes


def _read(writer: BodyWriter, graph: ir.Graph, model: ir.Model, opset: int) -> LoopReading:
    """Write and type the body of one map."""
    found = writer.write(graph)
    body = found.site.body
    check_range(writer.facts, writer.trips)
    open_functions(model, [body])
    _check_operators(body, model, opset)
    to_opset_form([*body], opset)
    type_body(body, writer.typings, model, writer.trips.bound - 1)
    writer.speculated.check(writer.typings.proven)
    check_bounds(body, writer.typings.proven)
    return found


def type_rows(
    rows: Mapping[ir.Value, ir.Value], count: int | str | None, typings: Typings
) -> None:
    """Enter the types of tensors of so many rows; for each a value that one row is like.

    What is proven holds where nothing is declared.
    """
    for tensor, row in rows.items():
        for typing in (typings.declared, typings.proven):
            known = typing[row] if typing.dims(row) is not None else typings.proven[row]
            if known.dims is not None:
                dims = (d if typing.is_one_number(d) else None for d in known.dims)
                typing.set(tensor, ValueType(known.type, (count, *dims)))
            else:
                typing.set(tensor, known)


def _check_operators(body: ir.Graph, model: ir.Model, opset: int) -> None:
    """Check that nothing could act on anything but its outputs, or differ from call to call.

    Raises:
        NotAMapError: Nothing is known of an operator.
    """
    for node in walk_nodes(body):
        known = is_default_domain(node) or node.op_identifier() in model.functions
        if not known and table.find(node, opset) is None:
            name = f"{node.domain}.{node.op_type}"
            raise NotAMapError(Code.NO_RULE, f"nothing tells what {name} does beside its outputs")
