"""Reads a Loop or Scan that is a map into a map site."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching import table
from passes.batching.opening import open_functions
from passes.builder import drop_uses
from passes.decisions import Code
from passes.graphs import is_default_domain, walk_nodes
from passes.reading.body import BodyWriter
from passes.reading.counts import check_range, count_trips
from passes.reading.facts import NotAMapError, find_facts
from passes.reading.iterations import read_iteration
from passes.reading.types import type_body
from passes.site import MapSite
from passes.typing.value_types import Typings

__all__ = ["discard_body", "read_loop"]

_OLDEST_OPSET = 11


def read_loop(
    node: ir.Node,
    graph: ir.Graph,
    path: str,
    typings: Typings,
    model: ir.Model,
    opset: int,
    *,
    as_long: bool = False,
    is_even: bool = False,
) -> MapSite:
    """Read a Loop or Scan.

    The body of the site is a copy that reads elements instead of what an iteration is handed; it
    stands in no graph, and `discard_body` takes it back. Functions without a rule are opened in
    it, which may add to the domains that the model imports.

    Args:
        node: The Loop or Scan.
        graph: The graph that it stands in.
        path: Its path, for messages.
        typings: Both typings; they gain the values of the new body.
        model: The model.
        opset: Version of ONNX's operators.
        as_long: Take tensors that are cut by the same bounds as equally long; the site lists
            those of which that is not proven.
        is_even: Take slices by entries of a vector as equally long; the site says what tells.

    Raises:
        NotAMapError: It is no map.
    """
    if opset < _OLDEST_OPSET:
        raise NotAMapError(Code.OPSET, f"Loops and Scans are read from opset {_OLDEST_OPSET} on")
    iteration = read_iteration(node)
    if iteration is None:
        raise NotAMapError(Code.NOT_A_MAP, "its inputs and outputs do not fit its body")
    facts = find_facts(iteration, typings.proven)
    trips = count_trips(facts, typings.proven)
    writer = BodyWriter(facts, trips, typings, path, as_long=as_long, is_even=is_even)
    try:
        site = writer.write(graph)
    except Exception:
        drop_uses(writer.builder.nodes)
        if writer.even is not None:
            drop_uses(writer.even.builder.nodes)
        raise
    try:
        check_range(facts, trips)
        open_functions(model, [site.body])
        _check_operators(site.body, model, opset)
        type_body(site.body, typings, model)
    except Exception:
        discard_body(site)
        raise
    return site


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


def discard_body(site: MapSite) -> None:
    """Take back every use that the body of a site makes of the model's values."""
    if site.was_loop:
        drop_uses(list(site.body))
    if site.even is not None:
        drop_uses(site.even.builder.nodes)
