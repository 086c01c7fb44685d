"""Facts that hold for all maps of a model while they are fused."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from passes.flat_views import read_view
from passes.graph.builder import given_path, given_paths
from passes.graph.graphs import (
    default_opset,
    name_of,
    paths_below,
    subgraphs,
)
from passes.promises import FuseOptions
from passes.reading.types import checked_types, is_possible
from passes.site import GuardCheck, MapSite
from passes.typing import Typings, type_both_ways

__all__ = ["FusionFacts", "Relied"]

Relied = Mapping[ir.Value, tuple[int | str | None, ...]]
"""The dimensions of elements that a guard checks, by sequence: their rank, and every number."""


class FusionFacts:
    """Facts that hold for all maps of a model.

    Attributes:
        model: The model.
        typings: Both typings.
        opset: Version of ONNX's operators.
        options: What the caller asks for.
        paths: Names the nodes for messages; a node that a rewrite wrote is called by the path of
            the node that it stands for.
        has_loops: Whether a Loop stands in the model.
    """

    def __init__(self, model: ir.Model, options: FuseOptions) -> None:
        self.model = model
        self.typings = type_both_ways(model, options.promises)
        self.opset = default_opset(model)
        self.options = options
        self.paths = given_paths(model)
        self.has_loops = any(node.op_type == "Loop" for node in self.paths)

    def name_nodes(self, site: MapSite) -> None:
        """Name the nodes of a body in which a rewrite wrote some."""
        found = paths_below(site.body, f"{site.path}/body/")
        self.paths |= {node: given_path(node, path) for node, path in found.items()}

    def is_promised(self, sequence: ir.Value) -> bool:
        """Whether the caller promises that all elements of a sequence have one shape."""
        promises = self.options.promises
        if sequence.name in promises.uniform:
            return True
        promised = promises.input_shapes.get(name_of(sequence))
        if promised is not None and None not in promised:
            return True
        declared = self.typings.declared
        return promises.trust_types and declared.static_dims(sequence) is not None

    def sequences_of_open_shape(self, site: MapSite, *, is_promised: bool) -> list[ir.Value]:
        """Return the sequences whose elements are not proven to have one shape.

        Args:
            site: The map that reads them.
            is_promised: Whether to return those with a promise, or the others.
        """
        found: dict[ir.Value, None] = {}
        for _, source in site.elements:
            sequence = source.sequence
            if sequence is None or source.has_one_shape(self.typings.proven):
                continue
            if self.is_promised(sequence) == is_promised:
                found[sequence] = None
        return list(found)

    def unproven_sequences(self, site: MapSite) -> list[ir.Value]:
        """Return the sequences whose elements may differ in shape."""
        found = self.sequences_of_open_shape(site, is_promised=False)
        return [one for one in found if not (self.options.takes_flat and read_view(one))]

    def runs_once(self, graph: ir.Graph) -> bool:
        """Whether a graph runs once for each run of the model at most, and in no body."""
        return any(one is graph for one in _outside_of_bodies(self.model.graph))

    def regardless_of_cost(self) -> FusionFacts:
        """Return the same for a map that is fused wherever it can be."""
        other = copy.copy(self)
        other.options = dataclasses.replace(self.options, auto=False)
        return other

    def for_ends_of(self, site: MapSite) -> FusionFacts:
        """Return the facts for one map; on a device it may read and yield tensors alone."""
        if not self.options.for_device or site.sequences:
            return self
        if any(one.kind == "sequence" for one in site.results):
            return self
        other = copy.copy(self)
        other.options = dataclasses.replace(self.options, for_tensors=True)
        return other

    def checked_typings(
        self, check: GuardCheck | None, site: MapSite, relied: Relied | None = None
    ) -> Typings:
        """Return both typings, or what is proven behind a guard.

        Args:
            check: What the guard asks; None if there is none.
            site: The map.
            relied: What is supposed of the elements; None for what is declared.
        """
        if check is None:
            return self.typings
        rows = check is not GuardCheck.SHAPES
        return checked_types(site, self.typings, self.model, relied or {}, rows=rows)

    def is_possible(self, site: MapSite, relied: Relied) -> bool:
        """Whether the body of a map takes elements of the shapes that a guard supposes."""
        return is_possible(site, self.typings, self.model, relied)


def _outside_of_bodies(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, and those in branches: what runs once for each run of the model."""
    yield graph
    for node in graph:
        for _, inner in subgraphs(node) if node.op_type == "If" else ():
            yield from _outside_of_bodies(inner)
