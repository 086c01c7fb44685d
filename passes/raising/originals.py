"""Keeps the nodes that a Map was raised from, and puts them back.

The nodes that a Map takes the place of are taken out of their graph and go on reading what they
read. So whatever they need stays in the model, and follows when a value is replaced by another.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.graph.drafts import drop_uses
from passes.graph.graphs import reads_of, subgraphs, walk_nodes
from passes.graph.splice import hand_over, remove_dead
from passes.raising.behind import describe_patterns
from passes.raising.flattened import nested_of
from passes.reading.loop_reading import LoopReading
from passes.sequence_operators import DOMAIN, is_map
from passes.site import Alternative, MapSite, Original, Rest

__all__ = [
    "IMPORTS_KEY",
    "GiveBackPass",
    "forget",
    "give_back",
    "original_of",
    "replace_by_map",
    "replace_by_maps",
]

_KEY = "seqmap.original"

IMPORTS_KEY = "seqmap.imports"
"""Note on a model, which no file holds: the domains that it imported before it was raised."""


def original_of(node: ir.Node) -> Original | None:
    """Return what a Map was raised from; None for one that was raised from nothing."""
    found = node.meta.get(_KEY)
    return found if isinstance(found, Original) and node in found.written else None


def replace_by_maps(
    reads: Sequence[LoopReading],
    written: Sequence[ir.Node],
    values: Sequence[tuple[ir.Value, ir.Value]],
    alternatives: Sequence[Alternative] = (),
    rest: Rest | None = None,
) -> Original:
    """Put new nodes, Maps among them, into the place of a Loop or Scan.

    Args:
        reads: The maps as they were read.
        written: The new nodes; no graph holds them.
        values: Pairs of an old value and a new one, which takes its name and its type.
        alternatives: Further readings.
        rest: What is left of the Loop beside the maps.

    Returns:
        What the Maps keep of the Loop or Scan.
    """
    taken = _take_out([read.site for read in reads], written, values)
    carried = [one for read in reads for one in read.behind]
    original = Original(
        taken,
        written,
        values,
        reads[-1].site.path,
        reads[-1].dialect,
        list(dict.fromkeys(line for read in reads for line in read.assumptions)),
        alternatives,
        list(dict.fromkeys(line for read in reads for line in describe_patterns(read))),
        grows=bool(carried) and all(one.pattern.grows for one in carried),
        few=max((one.pattern.few for one in carried), default=0),
        needs_sizes=any(one.pattern.needs_sizes for one in carried),
        rest=rest,
        sees_wholes=any(read.seen for read in reads),
    )
    return _noted(original)


def replace_by_map(
    site: MapSite, written: Sequence[ir.Node], values: Sequence[tuple[ir.Value, ir.Value]]
) -> Original:
    """Put new nodes, a Map among them, into the place of a SequenceMap.

    Args:
        site: The SequenceMap.
        written: See `replace_by_maps`.
        values: See `replace_by_maps`.
    """
    return _noted(Original(_take_out([site], written, values), written, values, site.path))


def _take_out(
    sites: Sequence[MapSite],
    written: Sequence[ir.Node],
    values: Sequence[tuple[ir.Value, ir.Value]],
) -> list[tuple[ir.Node, ir.Node | None]]:
    """Put new nodes into the place of a map; return what is gone, each with what was before it."""
    node, graph = sites[-1].node, sites[-1].graph
    behind = dict.fromkeys(r.value.producer() for site in sites for r in site.results)
    behind |= dict.fromkeys(old.producer() for old, _ in values)
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
        hand_over(old, new)
    graph.remove(gone)
    return [(one, previous[one]) for one in gone]


def _noted(original: Original) -> Original:
    """Note on the Maps what they were raised from."""
    for one in original.written:
        if is_map(one):
            one.meta[_KEY] = original
    return original


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
                if node.graph is not None:  # the other one of two Maps has not come back before
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
    """Put what a Map was raised from into its place, and return it."""
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
    written = [one for one in original.written if one.graph is graph]
    _let_go(written, original)
    graph.remove(written)
    if (nested := nested_of(original.node)) is None:
        return original.node
    two = nested.put_back()
    _let_go([*nested.before, nested.loop], original)
    return two


def forget(original: Original) -> None:
    """Let go of the nodes that a Map took the place of, and remove what only they read."""
    nodes = [node for node, _ in original.nodes]
    if (nested := nested_of(original.node)) is not None:
        nodes.append(nested.nested)
    read = {v for node in nodes for v in reads_of(node)}
    _let_go(nodes, original)
    remove_dead([p for v in read if (p := v.producer()) is not None and p not in nodes])


def _let_go(nodes: Sequence[ir.Node], original: Original) -> None:
    """Make nodes read nothing any more, nor the further readings of a Loop."""
    drop_uses([*nodes, *(node for one in original.alternatives for node in one.nodes)])
