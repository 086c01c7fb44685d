"""What a Map was before it was raised, and how that comes back.

The nodes that a Map takes the place of are taken out of their graph and go on reading what they
read. So whatever they need stays in the model, and follows when a value is replaced by another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.builder import drop_uses
from passes.graphs import with_subgraphs
from passes.maps.operator import DOMAIN, is_map

__all__ = ["GiveBackPass", "Original", "original_of", "replace_by_map"]

_KEY = "seqmap.original"


@dataclasses.dataclass(frozen=True)
class Original:
    """The nodes that a Map took the place of.

    Attributes:
        nodes: The Loop or Scan, then the ConcatFromSequences behind it; each with the node that
            stood before it.
        written: The nodes that came into their place.
        values: Pairs of a value of theirs and the one that is read in its place.
    """

    nodes: Sequence[tuple[ir.Node, ir.Node | None]]
    written: Sequence[ir.Node]
    values: Sequence[tuple[ir.Value, ir.Value]]


def original_of(node: ir.Node) -> Original | None:
    """Return what a Map was raised from; None for one that was raised from nothing."""
    found = node.meta.get(_KEY)
    return found if isinstance(found, Original) else None


def replace_by_map(
    node: ir.Node,
    behind: Iterable[ir.Node],
    written: Sequence[ir.Node],
    values: Sequence[tuple[ir.Value, ir.Value]],
) -> None:
    """Put new nodes, a Map among them, into the place of a Loop or Scan.

    Args:
        node: The Loop or Scan.
        behind: The nodes behind it that become part of the map.
        written: The new nodes; no graph holds them.
        values: Pairs of an old value and a new one, which takes its name and its type.
    """
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, written)
    for old, new in values:
        _hand_over(old, new)
    order = [None, *graph]
    previous = dict(zip(order[1:], order, strict=False))
    taken = [(one, previous[one]) for one in (node, *behind)]
    graph.remove([one for one, _ in taken])
    for one in written:
        if is_map(one):
            one.meta[_KEY] = Original(taken, written, values)


def _hand_over(old: ir.Value, new: ir.Value) -> None:
    """Let a value be read, and called, and typed, in the place of another."""
    name, old.name = old.name, None
    new.name = name
    new.type, new.shape, new.doc_string = old.type, old.shape, old.doc_string
    new.metadata_props.update(old.metadata_props)
    old.replace_all_uses_with(new, replace_graph_outputs=True)


class GiveBackPass(ir.passes.InPlacePass):
    """Put back, in the place of each Map that is left, the Loop or Scan that it was.

    1. The nodes stand where they stood, under the names that they had.
    2. What was written for the Map goes with it, its initializers included.
    3. No import of the domain of the Map is left.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Give back the Maps of the main graph and of all graphs in it, outer ones first."""
        pending, modified = [model.graph], False
        while pending:
            graph = pending.pop()
            originals = [original for node in graph if (original := original_of(node)) is not None]
            for original in originals:
                _give_back(graph, original)
            modified |= bool(originals)
            pending.extend(g for g in with_subgraphs(graph) if g is not graph)
        modified |= model.opset_imports.pop(DOMAIN, None) is not None
        return ir.passes.PassResult(model, modified)


def _give_back(graph: ir.Graph, original: Original) -> None:
    for node, previous in original.nodes:
        if previous is not None and previous.graph is graph:
            graph.insert_after(previous, node)
        else:
            graph.insert_before(original.written[0], node)
    for old, new in original.values:
        name, new.name = new.name, None
        new.replace_all_uses_with(old, replace_graph_outputs=True)
        old.name = name
    drop_uses(original.written)
    graph.remove([node for node in original.written if node.graph is graph])
