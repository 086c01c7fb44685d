"""Replaces what a runtime gets wrong by a form that it gets right, where a rewrite wrote it.

What the author of a model wrote in place stays as it is; `Authored` tells those nodes from the
others, for this pass and for all that run behind the maps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.drafts import drafting
from passes.graph.graphs import (
    PATH_KEY,
    all_nodes,
    default_opset,
    graphs_inside,
    is_default_domain,
    subgraphs,
    walk_nodes,
)
from passes.graph.names import make_names_unique
from passes.graph.node_copies import rank_alone
from passes.graph.opsets import to_opset_form
from passes.graph.splice import splice
from passes.reading.kept_typing import KeptTyping
from passes.runtimes.branches import newly_decided
from passes.runtimes.defect import Defect
from passes.runtimes.table import DEFECTS
from passes.runtimes.types import Types
from passes.typing import Typing

__all__ = ["Authored", "OthersPass", "SidestepDefectsPass", "outermost_graphs"]


class Authored:
    """Where each node of a model stood when it was recorded.

    A node is the author's if it is the same node, in the same graph, and that graph belongs to
    the same node, up to the main graph or a function. Every other node was written or moved.
    """

    def __init__(self, model: ir.Model) -> None:
        """Record a model as it was given."""
        self._graph_of: dict[ir.Node, ir.Graph] = {}
        self._owner_of: dict[ir.Graph, ir.Node] = {}
        for graph in outermost_graphs(model):
            for node in graph:
                self._record(node, graph)

    def _record(self, node: ir.Node, graph: ir.Graph) -> None:
        self._graph_of[node] = graph
        for _, inner in subgraphs(node):
            self._owner_of[inner] = node
            for one in inner:
                self._record(one, inner)

    def others(self, model: ir.Model) -> Iterator[ir.Node]:
        """Yield the nodes that were written or moved since, in order."""
        for graph in outermost_graphs(model):
            for node in graph:
                yield from self._others(node, graph)

    def _others(self, node: ir.Node, graph: ir.Graph) -> Iterator[ir.Node]:
        if self._graph_of.get(node) is not graph:
            yield from walk_nodes([node])
            return
        for _, inner in subgraphs(node):
            if self._owner_of.get(inner) is not node:
                yield from walk_nodes(inner)
                continue
            for one in inner:
                yield from self._others(one, inner)


class OthersPass(ir.passes.InPlacePass):
    """A pass that looks at the nodes that the model's author did not write."""

    def __init__(self, authored: Authored | None = None, typing: KeptTyping | None = None) -> None:
        """Set up the pass.

        Args:
            authored: The model as its author wrote it; None for none of its nodes.
            typing: The proven typing, kept for the passes behind it.
        """
        super().__init__()
        self._authored = authored
        self._kept = typing

    def _others(self, model: ir.Model) -> list[ir.Node]:
        """Return the nodes that are not the author's; all nodes where nothing was recorded."""
        if self._authored is not None:
            return list(self._authored.others(model))
        return [node for graph in outermost_graphs(model) for node in walk_nodes(graph)]

    def _typing(self, model: ir.Model) -> Typing:
        return (self._kept or KeptTyping()).of(model)


class SidestepDefectsPass(OthersPass):
    """Write nodes that meet a known defect of a runtime in a form that does not.

    1. The defects are the rows of `passes.runtimes.table.DEFECTS`.
    2. Nodes that the model's author wrote, and that still stand where they stood, stay as they
       are. An If of theirs does not, where a rewrite made a constant of its condition; nor does
       a node that a runtime takes together with new ones (`Defect.beside`).
    """

    def __init__(
        self,
        runtimes: Collection[str] = ("onnxruntime",),
        authored: Authored | None = None,
        typing: KeptTyping | None = None,
        *,
        asks: bool = False,
    ) -> None:
        """Set up the pass.

        Args:
            runtimes: Whose defects are sidestepped.
            authored: The model as its author wrote it; None for none of its nodes.
            typing: The proven typing that the passes before it asked for.
            asks: Whether a form may ask by an If when the model runs.
        """
        super().__init__(authored, typing)
        self._asks = asks
        self._present: set[str] = set()
        self._rows: dict[str, list[Defect]] = defaultdict(list)
        for row in DEFECTS:
            for op_type in row.operators if row.runtime in runtimes else ():
                self._rows[op_type].append(row)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        self._present = {node.op_type for node in all_nodes(model)}
        others = self._others(model)
        beside = self._beside(model, set(others))
        types = Types(model, self._kept, moved=set(others) if self._authored else ())
        pending = self._known([*others, *_decided(model, set(others), types), *beside])
        modified = bool(pending) and make_names_unique(model)
        opset, in_loops = default_opset(model), _graphs_in_loops(model)
        # A form may meet another defect, but none meets its own again.
        for _ in DEFECTS:
            if not pending:
                break
            made: list[ir.Node] = []
            # Readers first, so that what a node reads is still what was typed.
            for node in reversed(pending):
                for row in beside.get(node, self._rows_of(node)):
                    if row.rounds and (node.graph in in_loops or PATH_KEY in node.meta):
                        continue
                    if _is_left(node) and row.meets(node, types):
                        made += _replace(node, row, types, opset, asks=self._asks)
            modified |= bool(made)
            self._present |= {node.op_type for node in walk_nodes(made)}
            made = _standing(made, model)
            if not made:
                break
            types = types.after(made)
            # A new node may make a constant of a condition, or be taken together with old ones.
            beside = self._beside(model, set(made))
            pending = self._known([*made, *_decided(model, set(made), types), *beside])
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _beside(self, model: ir.Model, others: Collection[ir.Node]) -> dict[ir.Node, list[Defect]]:
        """Return the nodes that a runtime takes together with some others.

        Each has the rows by which it does.
        """
        found: dict[ir.Node, list[Defect]] = {}
        for node in all_nodes(model) if others else ():
            rows = self._rows_of(node) if node not in others else []
            if taken := [row for row in rows if row.beside and row.beside(node, others)]:
                found[node] = taken
        return found

    def _rows_of(self, node: ir.Node) -> list[Defect]:
        """Return the defects that a node may meet beside the operators of the model."""
        rows = self._rows.get(node.op_type, ()) if is_default_domain(node) else ()
        return [row for row in rows if row.needs is None or row.needs in self._present]

    def _known(self, nodes: Iterable[ir.Node]) -> list[ir.Node]:
        """Return the nodes that may meet a defect."""
        return [n for n in nodes if self._rows_of(n)]


def _decided(model: ir.Model, others: Collection[ir.Node], types: Types) -> list[ir.Node]:
    """Return the Ifs whose condition is a constant because of some others."""
    ifs = [node for node in all_nodes(model) if node.op_type == "If"]
    return list(newly_decided(ifs, others, types)) if ifs else []


def _is_left(node: ir.Node) -> bool:
    """Whether a node is still in the model; inner nodes of a removed node read nothing."""
    return node.graph is not None and (
        not node.inputs or any(value is not None for value in node.inputs)
    )


def _standing(nodes: Collection[ir.Node], model: ir.Model) -> list[ir.Node]:
    """Return the nodes that stand in a model, and in no graph of a node that is gone."""
    standing = set(all_nodes(model)) if nodes else set[ir.Node]()
    return [node for node in nodes if node in standing]


def _graphs_in_loops(model: ir.Model) -> set[ir.Graph]:
    """Return the bodies of Loops and Scans, and what stands in them."""
    loops = (node for node in all_nodes(model) if node.op_type in ("Loop", "Scan"))
    return {graph for node in loops for graph in graphs_inside(node)}


def _replace(node: ir.Node, row: Defect, types: Types, opset: int, *, asks: bool) -> list[ir.Node]:
    """Put the form of a row in the place of a node; return the new nodes, none if it stays."""
    builder = Builder.at(node)
    with drafting() as draft:
        form = row.asking if asks and row.asking else row.form
        new = form(node, types, builder)
        if new is None:
            return []
        for made in builder.nodes:
            made.metadata_props.update(node.metadata_props)
        to_opset_form(builder.nodes, opset)
        if row.stays:
            _read_instead(builder, node, new)
        else:
            splice(builder, node, zip(node.outputs, new, strict=True))
        draft.keep(builder.nodes)
    types.replaced(dict(zip(node.outputs, new, strict=True)))
    return builder.nodes


def _read_instead(builder: Builder, node: ir.Node, new: list[ir.Value]) -> None:
    """Put new nodes beside a node, and read their outputs in the place of its own."""
    graph = node.graph
    assert graph is not None
    own = set(builder.nodes)
    is_behind = any(value in node.outputs for made in own for value in made.inputs)
    (graph.insert_after if is_behind else graph.insert_before)(node, builder.nodes)
    for old, value in zip(node.outputs, new, strict=True):
        if value is old:
            continue
        value.type, value.shape = old.type, rank_alone(old.shape)
        for reader, index in old.uses():
            if reader not in own:
                reader.replace_input_with(index, value)


def outermost_graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph and those of the functions."""
    return [model.graph, *(function.graph for function in model.functions.values())]
