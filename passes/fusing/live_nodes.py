"""Which nodes of a body some result hangs on: proofs about sizes leave others unread."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.graphs import reads_of

__all__ = ["read_of"]


def read_of(fused: FusedBody, nodes: Iterable[ir.Node]) -> list[ir.Node]:
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
