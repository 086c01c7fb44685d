"""Shapes that the Loops of a body tell, for the samples in which they make no trips.

What such a Loop collects has 0 for each dimension that the output of its body does not tell.
What collects the samples takes dimensions that are proven for those of every sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from passes.graph.graphs import is_operator, walk_nodes
from passes.typing import Typings

__all__ = ["tell_proven_shapes"]


def tell_proven_shapes(
    nodes: Iterable[ir.Node], copies: Mapping[ir.Value, ir.Value | None], typings: Typings
) -> None:
    """Write the proven dimensions of what Loops collect to copies of them.

    Args:
        nodes: The nodes of a body, with Loops at any depth.
        copies: What each value of the body became.
        typings: Both typings of the body.
    """
    for node in walk_nodes(nodes):
        for value in _collected(node) if is_operator(node, "Loop") else ():
            copy, dims = copies.get(value), typings.proven_dims(value)
            if copy is not None and copy is not value and dims is not None:
                copy.shape = ir.Shape([d if isinstance(d, int) else None for d in dims])


def _collected(loop: ir.Node) -> list[ir.Value]:
    """Return what the body of a Loop computes for its scan outputs by nodes of its own."""
    body = loop.attributes["body"].as_graph()
    states = max(len(loop.inputs) - 2, 0)
    return [
        value
        for value in body.outputs[1 + states :]
        if (maker := value.producer()) is not None and maker.graph is body
    ]
