"""Walks over the body of a map: reads its sources as far as a guard allows, batches its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.batching.body_state import WalkOptions
from passes.batching.layouts import Batched, Layout
from passes.batching.lengths import Lengths
from passes.batching.walk import BatchInterpreter
from passes.decisions import Code, Decline, Reason
from passes.fusing.batched_sources import BatchedSources
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts, Relied
from passes.fusing.held_wholes import limit_copies, limit_wholes
from passes.graph.graphs import captured_values, subgraphs, walk_nodes
from passes.loops.batched_results import can_give
from passes.sequence_operators import is_map
from passes.site import GuardCheck, MapSite
from passes.typing import Typing, Typings
from passes.typing.value_types import UNKNOWN

__all__ = ["walk_site"]


def walk_site(
    site: MapSite,
    facts: FusionFacts,
    check: GuardCheck | None,
    *,
    relied: Relied | None = None,
    collects_lengths: bool = False,
) -> FusedBody:
    """Walk over a body as if a guard had checked the elements of all unproven sequences.

    Args:
        site: The map.
        facts: What holds for all maps.
        check: What the guard asks; None if there is none.
        relied: What it checks of the elements of sequences; None for what is declared.
        collects_lengths: Whether loops may collect what differs by length, and the lengths.
    """
    read = BatchedSources(site, facts, check, relied)
    types = facts.checked_typings(check, site, relied)
    apart = {inner for inner, _ in site.elements} - read.found.keys()
    options = WalkOptions(
        opset=facts.opset,
        batch=read.batch,
        may_be_empty=not read.needs_samples,
        paths=facts.paths,
        asked=facts.options,
        lengths=_length_symbols(site, read.found, types.proven),
        ambiguous=_ambiguous_symbols(site, apart, types.proven) if collects_lengths else None,
        nodes=_nodes_in_loop(site),
        products=sum(node.op_type in ("Gemm", "MatMul") for node in walk_nodes(site.body)),
        is_carried=_feeds_carried(site),
    )
    return _walk_body(site, types, options, read, facts)


def _walk_body(
    site: MapSite,
    typings: Typings,
    options: WalkOptions,
    read: BatchedSources,
    facts: FusionFacts,
) -> FusedBody:
    """Walk over the body of a map until nothing ragged must pass from one loop to another.

    Args:
        site: The map.
        typings: Both typings of the model.
        options: The surroundings.
        read: The sources.
        facts: What holds for all maps.
    """
    found = dict(read.found)
    kept: dict[ir.Node, Reason | None] = {}
    declined: dict[ir.Node, Decline] = {}
    while True:
        walk = BatchInterpreter(typings, options, site.path, declined)
        walk.stage(0)
        for inner, outer in site.shared:
            walk.bind(inner, Batched(Layout.SHARED, outer, UNKNOWN))
        for inner, source in site.elements:
            if inner in found:
                walk.bind(inner, found[inner])
            else:
                walk.bind_apart(inner, differs=source.differs(typings.proven))
            count = source.given_count
            if count is not None:
                walk.numbers.count_samples(inner, count)
        if any(one.sees_wholes for one in site.originals):
            limit_wholes(site, walk, read.prelude, options.batch, facts)
        walk.run(site.body, kept)
        torn = _read_apart(site, walk)
        if walk.demotions.nodes.keys() <= kept.keys() and not torn:
            break
        declined = walk.causes.declined | declined
        makers = [node for v in torn if (node := v.producer()) is not None]
        kept = walk.demotions.nodes | {n: _why_apart(n, options) for n in makers} | kept
        for value in torn:
            found.pop(value, None)
    bound = {inner for inner, x in found.items() if not x.is_flat}
    sources = {inner: source for inner, source in site.elements if inner not in bound}
    if walk.copies:
        limit_copies(site, walk)
    return FusedBody(site, walk, read.prelude, options.batch, sources, read.asked)


def _read_apart(site: MapSite, walk: BatchInterpreter) -> list[ir.Value]:
    """Return the packed outputs of a body that some result joins along a different axis."""
    outputs = ((r, site.body.outputs[r.output]) for r in site.results)
    torn = (v for r, v in outputs if not can_give(r, walk.read(v), walk.options))
    return list(dict.fromkeys(torn))


def _why_apart(node: ir.Node, options: WalkOptions) -> Reason:
    detail = "its samples differ in length, and are stacked or joined along another axis"
    return Reason(Code.RAGGED, options.paths.get(node) or node.op_type, node.op_type, detail)


def _length_symbols(
    site: MapSite, read: Mapping[ir.Value, Batched], typing: Typing
) -> dict[str, Lengths]:
    """Return the symbols that stand for the length of a sample everywhere in a body.

    A symbol that a value from outside has too, or that two lengths share, stands for nothing.

    Args:
        site: The map.
        read: The inputs of its body that are read as one tensor.
        typing: Types of the body's values where the new nodes run.
    """
    found: dict[str, Lengths | None] = {}
    packed = {inner: x for inner, x in read.items() if x.is_packed}
    for inner, x in packed.items():
        dims, lengths = typing.dims(inner), x.lengths
        along = dims[x.axis] if dims else None
        if isinstance(along, str):
            found[along] = lengths if found.get(along, lengths) is lengths else None
    foreign = _foreign_symbols(site, packed, typing)
    return {s: lengths for s, lengths in found.items() if lengths is not None and s not in foreign}


def _foreign_symbols(site: MapSite, own: Collection[ir.Value], typing: Typing) -> set[str]:
    """Return the symbols of values that come from outside of a body, but for some of its inputs.

    Args:
        site: The map.
        own: Those inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    outer = {*captured_values(site.body), *(inner for inner, _ in site.shared)}
    outer |= {inner for inner, _ in site.elements if inner not in own}
    return {symbol for value in outer for symbol in _symbols(value, typing)}


def _ambiguous_symbols(site: MapSite, apart: Collection[ir.Value], typing: Typing) -> set[str]:
    """Return the symbols that may not be the same dimension of a sample in a whole body.

    These are symbols from outside, and those that two inputs share.

    Args:
        site: The map.
        apart: The per-sample inputs of its body.
        typing: Types of the body's values where the new nodes run.
    """
    counts = Counter(symbol for value in apart for symbol in _symbols(value, typing))
    repeated = {symbol for symbol, count in counts.items() if count > 1}
    return repeated | _foreign_symbols(site, apart, typing)


def _symbols(value: ir.Value, typing: Typing) -> set[str]:
    return {dim for dim in typing.dims(value) or () if isinstance(dim, str)}


def _feeds_carried(site: MapSite) -> bool:
    """Whether operators behind a map compute of its results what a Loop carried."""
    carrying = [one for one in site.originals if one.patterns and not one.grows]
    behind = {node for one in carrying for node in one.written if not is_map(node)}
    return any(node in behind for r in site.results for node in r.value.consumers())


def _nodes_in_loop(site: MapSite) -> int:
    """Return how many nodes a sample takes in the loop that a map is, or was.

    Constants are none, and what reads an element is one.
    """
    given = [graph for one in site.originals for _, graph in subgraphs(one.node)]
    reads = 0 if given else len(site.elements)
    graphs = given or [site.body]
    nodes = (node for graph in graphs for node in walk_nodes(graph))
    return reads + sum(node.op_type != "Constant" for node in nodes)
