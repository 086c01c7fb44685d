"""Finds the shared nodes of a map that could fail where there are no samples."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.rows_of_loops import joins_rows_of_loops
from passes.fusing.speculatable import make_speculatable
from passes.graph.graphs import reads_of

__all__ = ["failing_empty"]


def failing_empty(fused: FusedBody, facts: FusionFacts) -> str | None:
    """Return a node that could fail and now runs even if there are no samples, None if none does.

    It is empty where no single node is to blame.
    """
    typing = facts.typings.proven
    failing = [node for node in fused.walk.hoisted if not runs_anywhere(node, typing, facts.opset)]
    failing = _read_of(fused, failing) if failing else failing
    is_open = fused.reads_open_results(facts.typings)
    is_open |= facts.has_loops and joins_rows_of_loops(fused, typing)
    if (not failing and not is_open) or _has_a_sample(fused, facts):
        return None
    may_mend = "If" in facts.options.lacks and not is_open
    if may_mend and make_speculatable(fused, failing, typing):
        return None
    return _named(fused, failing[0]) if failing else ""


def _named(fused: FusedBody, node: ir.Node) -> str:
    path = fused.walk.options.paths.get(node) or node.name or node.op_type
    return f"{path} ({node.op_type})"


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
