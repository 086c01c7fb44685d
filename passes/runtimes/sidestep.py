"""Writes what a runtime gets wrong in a form that it gets right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import onnx_ir as ir

from passes.builder import Builder
from passes.graphs import default_opset, is_default_domain
from passes.names import make_names_unique
from passes.opset_forms import to_opset_form
from passes.runtimes.authored import Authored, nodes_by_others
from passes.runtimes.table import DEFECTS, Defect
from passes.runtimes.types import Types
from passes.splice import splice

__all__ = ["SidestepDefectsPass"]


class SidestepDefectsPass(ir.passes.InPlacePass):
    """Write nodes that meet a known defect of a runtime in a form that does not.

    1. The defects are the rows of `passes.runtimes.table.DEFECTS`.
    2. Nodes that the model's author wrote, and that still stand where they stood, stay as they
       are.
    """

    def __init__(
        self,
        runtimes: Collection[str] = ("onnxruntime",),
        authored: Authored | None = None,
    ) -> None:
        """Set up the pass.

        Args:
            runtimes: Whose defects are sidestepped.
            authored: The model as its author wrote it; None for none of its nodes.
        """
        super().__init__()
        self._authored = authored
        self._rows: dict[str, list[Defect]] = defaultdict(list)
        for row in DEFECTS:
            for op_type in row.operators if row.runtime in runtimes else ():
                self._rows[op_type].append(row)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph, subgraphs and functions."""
        pending = self._known(nodes_by_others(model, self._authored))
        modified = bool(pending) and make_names_unique(model)
        opset = default_opset(model)
        # A form may meet another defect, but none meets its own again.
        for _ in DEFECTS:
            if not pending:
                break
            types = Types(model)
            made: list[ir.Node] = []
            # Readers first, so that what a node reads is still what was typed.
            for node in reversed(pending):
                for row in self._rows[node.op_type]:
                    if node.graph is not None and row.meets(node, types):
                        made += _replace(node, row, types, opset)
            modified |= bool(made)
            pending = self._known(node for node in made if node.graph is not None)
        if modified:
            make_names_unique(model)
        return ir.passes.PassResult(model, modified)

    def _known(self, nodes: Iterable[ir.Node]) -> list[ir.Node]:
        """Return the nodes of operators that have a row."""
        return [n for n in nodes if n.op_type in self._rows and is_default_domain(n)]


def _replace(node: ir.Node, row: Defect, types: Types, opset: int) -> list[ir.Node]:
    """Put the form of a row in the place of a node; return the new nodes, none if it stays."""
    builder = Builder(node.name or node.op_type)
    new = row.form(node, types, builder)
    if new is None:
        builder.prune(())
        return []
    for made in builder.nodes:
        made.metadata_props.update(node.metadata_props)
    to_opset_form(builder.nodes, opset)
    splice(builder, node, zip(node.outputs, new, strict=True))
    return builder.nodes
