"""What is batched of a body without a guard: whether it is right, and what is left to loops."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.decisions import Code, Reason
from passes.fusing.cost import USUAL, cost_of_body
from passes.fusing.flatten import flattened
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.harmless import make_harmless
from passes.fusing.walk_site import walk_site
from passes.graph.graphs import reads_of
from passes.maps.sequence_source import (
    CONTRADICTED,
    DISPUTED,
    is_contradicted,
    is_disputed,
)
from passes.site import MapSite
from passes.typing import Typings

__all__ = [
    "has_no_samples",
    "least_in_loops",
    "may_fail_empty",
    "reads_sequence",
    "stays_loop",
    "why_untrusted",
]


def why_untrusted(site: MapSite, typings: Typings) -> Reason | None:
    """Return why no form but a loop is right whatever the elements are, None if one may be."""
    for inner, sequence in site.sequences:
        if is_disputed(sequence, typings.declared):
            return Reason(Code.UNKNOWN_RANK, detail=DISPUTED)
        if is_contradicted(inner, sequence, typings.declared):
            return Reason(Code.UNKNOWN_SHAPE, detail=CONTRADICTED)
    return None


def stays_loop(plain: FusedBody, facts: FusionFacts) -> bool:
    """Whether a body without a guard is better left to a loop, or to be unrolled."""
    return any(plain.walk.loops) and (not plain.walk.fused or "Loop" in facts.options.lacks)


def has_no_samples(site: MapSite, facts: FusionFacts) -> bool:
    """Whether a source is known to be empty, so that a branch for samples would never run."""
    return any(source.number(facts.typings.proven) == 0 for _, source in site.elements)


def reads_sequence(fused: FusedBody) -> bool:
    """Whether samples are joined to one tensor before they are batched."""
    return any(node.op_type == "ConcatFromSequence" for node in fused.prelude.nodes)


def may_fail_empty(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether a node that could fail now runs even if there are no samples."""
    typing = facts.typings.proven
    failing = [node for node in fused.walk.hoisted if not runs_anywhere(node, typing, facts.opset)]
    failing = _read_of(fused, failing) if failing else failing
    is_open = fused.reads_open_results(facts.typings)
    if (not failing and not is_open) or _has_a_sample(fused, facts):
        return False
    may_mend = "If" in facts.options.lacks and not is_open
    return not (may_mend and make_harmless(fused, failing, typing))


def _has_a_sample(fused: FusedBody, facts: FusionFacts) -> bool:
    """Whether the source that gives the number of samples has an element by proof."""
    return bool(fused.site.elements[0][1].number(facts.typings.proven))


def _read_of(fused: FusedBody, nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """Return those of a body's shared nodes that a result may hang on.

    A Pad to one length does not read its amounts where they are proven to be what is left of it.

    Args:
        fused: A body whose nodes are recorded, but not yet in a graph.
        nodes: Shared nodes of the body.
    """
    walk = fused.walk
    if any(walk.loops):
        return list(nodes)
    results = [walk.read(fused.site.body.outputs[o]) for o in fused.site.used_outputs()]
    pending = [v for x in results for v in (x.value, x.lengths and x.lengths.value) if v]
    live: set[ir.Node] = set()
    while pending:
        node = pending.pop().producer()
        if node is not None and node not in live:
            live.add(node)
            pending += reads_of(node)
    kept = []
    for node in nodes:
        held = walk.env.get(node.outputs[0])
        if held is None or held.value.producer() in live:
            kept.append(node)
    return kept


def least_in_loops(site: MapSite, facts: FusionFacts, plain: FusedBody) -> FusedBody:
    """Return the form of a body without a guard that leaves the least to loops.

    Loops may collect lengths beside their values, and samples may be flattened. For ``auto`` the
    former must pay, and samples stay as they are: large ones are faster one by one, while they
    are in the cache.

    Args:
        site: The map.
        facts: What holds for all maps.
        plain: Its body, walked over without either.

    Returns:
        One of the forms.
    """
    best = plain
    if not any(plain.walk.loops):
        return best
    flat = None if facts.options.auto else flattened(site, facts.typings, facts.opset, facts.paths)
    for other in (site, flat):
        if other is None:
            continue
        body = walk_site(other, facts, None, collects_lengths=True)
        if facts.options.auto:
            before, after = (cost_of_body(one, facts.typings).of(USUAL) for one in (best, body))
            is_better = after < before
        else:
            is_better = body.nodes_in_loops < best.nodes_in_loops
        best = body if is_better else best
    return best
