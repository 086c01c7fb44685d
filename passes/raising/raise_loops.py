"""Raises the Loops and Scans that are maps to Map nodes."""

from __future__ import annotations

import onnx_ir as ir

from passes.decisions import Decision
from passes.graph.graphs import node_paths, walk_nodes
from passes.graph.names import keep_names, name_apart
from passes.promises import FuseOptions, Promises
from passes.raising.originals import IMPORTS_KEY
from passes.raising.raiser import Raiser
from passes.reading.iterations import is_given
from passes.typing import type_both_ways

__all__ = ["RaiseLoopsPass"]


class RaiseLoopsPass(ir.passes.InPlacePass):
    """Write each Loop and Scan that is a map as a Map node.

    1. The ConcatFromSequences that read what a Loop appends become results of the Map.
    2. A carried value that a Loop yields, and that is no result, is computed by nodes beside it.
    3. A Loop inside of the body of a raised one is raised there.
    4. What was raised comes back by `GiveBackPass`.
    5. Loops that a rewrite wrote, Loops that yield nothing but carried values, and those of
       model-local functions stay.

    Attributes:
        raised: For each Loop and Scan that was raised, its path and how it spells a map.
        decisions: Why each of the others stays.
    """

    def __init__(self, promises: Promises | None = None) -> None:
        """Set up the pass.

        Args:
            promises: Shapes of inputs that the caller promises.
        """
        super().__init__()
        self._promises = promises
        self.raised: dict[str, str] = {}
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Raise the Loops of the main graph and of all graphs in it, outer ones first."""
        self.raised, self.decisions = {}, []
        if not any(map(is_given, walk_nodes(model.graph))):
            return ir.passes.PassResult(model, False)
        imports = set(model.opset_imports)
        with keep_names(model):
            typings = type_both_ways(model, self._promises)
            raiser = Raiser(model, typings, node_paths(model), is_given, FuseOptions())
            raiser.raise_loops()
        name_apart(model, raiser.written)
        if raiser.raised:
            model.meta[IMPORTS_KEY] = imports
        self.raised = {one.path: one.dialect for one in raiser.raised.values()}
        self.decisions = list(raiser.kept.values())
        return ir.passes.PassResult(model, bool(self.raised))
