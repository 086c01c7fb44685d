"""What a Map was before it was raised, and how that comes back.

The nodes that a Map takes the place of are taken out of their graph and go on reading what they
read. So whatever they need stays in the model, and follows when a value is replaced by another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from passes.builder import drop_uses
from passes.graphs import captured_values, subgraphs, walk_nodes
from passes.maps.operator import DOMAIN, is_map
from passes.raising.readings import Reading
from passes.site import MapSite
from passes.splice import remove_dead

__all__ = [
    "IMPORTS_KEY",
    "GiveBackPass",
    "Original",
    "forget",
    "give_back",
    "original_of",
    "replace_by_map",
]

_KEY = "seqmap.original"

IMPORTS_KEY = "seqmap.imports"
"""Note on a model, which no file holds: the domains that it imported before it was raised."""


@dataclasses.dataclass(frozen=True)
class Original:
    """The nodes that a Map took the place of, and what a node cannot say of them.

    Attributes:
        nodes: The Loop or Scan, then the ConcatFromSequences behind it; each with the node that
            stood before it.
        written: The nodes that came into their place.
        values: Pairs of a value of theirs and the one that is read in its place.
        site: The map as it was read.
        as_long: A reading as if tensors that are cut alike were equally long; None where that
            makes no difference.
        even: A reading as if all slices had one length; None where that makes no sense.
    """

    nodes: Sequence[tuple[ir.Node, ir.Node | None]]
    written: Sequence[ir.Node]
    values: Sequence[tuple[ir.Value, ir.Value]]
    site: MapSite
    as_long: Reading | None = None
    even: Reading | None = None

    @property
    def node(self) -> ir.Node:
        """The Loop or Scan."""
        return self.nodes[0][0]


def original_of(node: ir.Node) -> Original | None:
    """Return what a Map was raised from; None for one that was raised from nothing."""
    found = node.meta.get(_KEY)
    return found if isinstance(found, Original) and node in found.written else None


def replace_by_map(
    site: MapSite,
    written: Sequence[ir.Node],
    values: Sequence[tuple[ir.Value, ir.Value]],
    as_long: Reading | None = None,
    even: Reading | None = None,
) -> None:
    """Put new nodes, a Map among them, into the place of a Loop or Scan.

    Args:
        site: The map as it was read.
        written: The new nodes; no graph holds them.
        values: Pairs of an old value and a new one, which takes its name and its type.
        as_long: See `Original`.
        even: See `Original`.
    """
    node, graph = site.node, site.graph
    behind = dict.fromkeys(r.value.producer() for r in site.results)
    behind.pop(node, None)
    gone = [node, *(one for one in behind if one is not None)]
    previous: dict[ir.Node, ir.Node | None] = {}
    before: ir.Node | None = None
    for one in graph:
        if one in gone:
            previous[one] = before
        before = one
    graph.insert_before(node, written)
    for old, new in values:
        _hand_over(old, new)
    graph.remove(gone)
    taken = [(one, previous[one]) for one in gone]
    for one in written:
        if is_map(one):
            one.meta[_KEY] = Original(taken, written, values, site, as_long, even)


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
    3. No import is left of the domain of the Map, nor one that came with raising and that no node
       needs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Give back the Maps of the main graph and of all graphs in it, outer ones first."""
        pending, modified = [model.graph], False
        while pending:
            graph = pending.pop()
            for node in [node for node in graph if original_of(node) is not None]:
                give_back(node)
                modified = True
            pending.extend(inner for node in graph for _, inner in subgraphs(node))
        modified |= model.opset_imports.pop(DOMAIN, None) is not None
        modified |= _drop_imports(model)
        return ir.passes.PassResult(model, modified)


def _drop_imports(model: ir.Model) -> bool:
    """Drop the imports that raising added, where no node of the graphs needs them."""
    before = model.meta.pop(IMPORTS_KEY, None)
    if before is None:
        return False
    needed = {node.domain for node in walk_nodes(model.graph)}
    added = [domain for domain in model.opset_imports if domain not in before | needed]
    for domain in added:
        del model.opset_imports[domain]
    return bool(added)


def give_back(node: ir.Node) -> ir.Node:
    """Put the Loop or Scan that a Map was raised from into its place, and return it."""
    original, graph = original_of(node), node.graph
    assert original is not None
    assert graph is not None
    for one, previous in original.nodes:
        if previous is not None and previous.graph is graph:
            graph.insert_after(previous, one)
        else:
            graph.insert_before(node, one)
    for old, new in original.values:
        name, new.name = new.name, None
        new.replace_all_uses_with(old, replace_graph_outputs=True)
        old.name = name
    _discard_readings(original)
    written = [one for one in original.written if one.graph is graph]
    drop_uses(written)
    graph.remove(written)
    return original.node


def forget(original: Original) -> None:
    """Let go of the nodes that a Map took the place of, and remove what only they read."""
    nodes = [node for node, _ in original.nodes]
    read = {v for node in nodes for v in node.inputs if v is not None}
    read.update(v for node in nodes for _, g in subgraphs(node) for v in captured_values(g))
    drop_uses(nodes)
    _discard_readings(original)
    remove_dead([p for v in read if (p := v.producer()) is not None and p not in nodes])


def _discard_readings(original: Original) -> None:
    for reading in filter(None, (original.as_long, original.even)):
        reading.discard()
