"""The Loop or Scan that a map was read from, as its model has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import ORIGIN_KEY, Builder
from passes.graphs import copy_nodes, subgraphs, with_subgraphs
from passes.site import MapSite

__all__ = ["CopiedLoop", "copied_loop"]


@dataclasses.dataclass(frozen=True)
class CopiedLoop:
    """A Loop or Scan, and what its model makes of its outputs.

    Attributes:
        site: The map that was read from it.
        nodes: The nodes that a copy consists of.
    """

    site: MapSite
    nodes: Sequence[ir.Node]

    def write(self, builder: Builder) -> list[ir.Value]:
        """Record a copy and return the value of each result of the map."""
        values: dict[ir.Value, ir.Value | None] = {}
        copies = copy_nodes(self.nodes, values)
        for node in copies:
            node.metadata_props[ORIGIN_KEY] = self.site.path
        builder.nodes.extend(copies)
        results = [values[result.value] for result in self.site.results]
        return [value for value in results if value is not None]


def copied_loop(site: MapSite) -> CopiedLoop | None:
    """Return what can be copied of a map that was a Loop or Scan; None where nothing can.

    Elements of a sequence are better read through another type than its model has for them. The
    initializers of a body would be copied too, and a result that is reversed is made otherwise.
    """
    bodies = [g for _, body in subgraphs(site.node) for g in with_subgraphs(body)]
    is_reversed = any(result.is_reversed for result in site.results)
    if not site.was_loop or is_reversed or any(body.initializers for body in bodies):
        return None
    nodes = [site.node]
    for result in site.results:
        node = result.value.producer()
        if node is None or (node is not site.node and not _reads(node, site.node)):
            return None
        if node not in nodes:
            nodes.append(node)
    return CopiedLoop(site, nodes)


def _reads(node: ir.Node, loop: ir.Node) -> bool:
    return all(value is None or value.producer() is loop for value in node.inputs)
