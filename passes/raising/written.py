"""Records what takes the place of a Loop: Maps, and what is computed beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping

import onnx_ir as ir

from passes.fusing.held_wholes import check_wholes
from passes.graph.builder import Builder
from passes.graph.graphs import walk_nodes, with_subgraphs
from passes.graph.node_copies import copy_value
from passes.graph.opsets import find_misfit, to_opset_form
from passes.maps.sites import write_map
from passes.promises import FuseOptions
from passes.raising.behind import write_behind
from passes.raising.results import type_results
from passes.reading.loop_reading import LoopReading
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["Written", "own_initializers"]


@dataclasses.dataclass
class Written:
    """The nodes that are to take the place of a Loop.

    Attributes:
        builder: The new nodes.
        typings: Both typings; they gain the new values.
        opset: Version of ONNX's operators.
        options: What is asked of the rewrite.
        is_inside: Whether the Loop stands in a body or a branch.
        loops: The Maps and Loops among the nodes.
        values: For each output of the Loop, and each tensor of rows, what stands for it.
        made: What is recorded once, though several maps or results read it.
    """

    builder: Builder
    typings: Typings
    opset: int
    options: FuseOptions
    is_inside: bool = False
    loops: list[ir.Node] = dataclasses.field(default_factory=list)
    values: dict[ir.Value, ir.Value] = dataclasses.field(default_factory=dict)
    made: dict[Hashable, ir.Value] = dataclasses.field(default_factory=dict)

    def write_finals(self, read: LoopReading) -> None:
        """Record the counters and the values that no iteration changes."""
        finals = {old: write(self.builder) for old, write in read.finals.items()}
        computed = {old: self._computed(new) for old, new in finals.items()}
        self.typings.copy(computed)
        self.values |= computed

    def write_map(self, read: LoopReading, original: ir.Graph) -> None:
        """Record a Map and what is computed behind it.

        Args:
            read: The map; it may read rows that stand among the values.
            original: The body of the Loop that it was read from.

        Raises:
            NotAMapError: Something that a pattern relies on is not proven, or it rounds.
        """
        site = _moved(read.site, self.values | self._own_sources(read.site, original))
        check_wholes(read, site, self.typings.proven, self.options)
        yielded: dict[ir.Value, ir.Value] = {}
        if site.results:
            self.typings.copy(own_initializers(site.body, original))
            made = write_map(self.builder, site)
            self.loops.append(made)
            yielded = dict(zip((r.value for r in site.results), made.outputs, strict=True))
        behind = write_behind(
            self.builder,
            read,
            yielded,
            self.typings,
            self.opset,
            self.options,
            self.made,
            is_inside=self.is_inside,
        )
        computed = {old: self._computed(new) for old, new in behind}
        type_results(site, yielded | computed, self.typings)
        self.values |= yielded | computed

    def _own_sources(self, site: MapSite, original: ir.Graph) -> dict[ir.Value, ir.Value]:
        """Record the initializers of the Loop's body that samples are read from."""
        read = {value for _, source in site.elements for value in source.values}
        return {
            value: self._constant(value) for value in initializers_in(original) if value in read
        }

    def _constant(self, initializer: ir.Value) -> ir.Value:
        assert initializer.const_value is not None
        value = self.builder.constant(initializer.const_value.numpy())
        self.typings.copy({initializer: value})
        return value

    def drop_unread(self) -> None:
        """Forget the nodes that no output of the Loop and no map depends on."""
        read = [new for old, new in self.values.items() if old.producer() is not None]
        self.builder.prune([*read, *(value for one in self.loops for value in one.outputs)])

    def misfit(self) -> str | None:
        """Return what the model's opset lacks of what stands beside Maps and Loops."""
        to_opset_form(self.builder.nodes, self.opset, but=self.loops)
        beside = [node for node in self.builder.nodes if node not in self.loops]
        return find_misfit(beside, self.opset)

    def _computed(self, value: ir.Value) -> ir.Value:
        """Return a value that the builder computes itself."""
        own = any(value is out for node in self.builder.nodes for out in node.outputs)
        return value if own else self.builder.op("Identity", [value])


def _moved(site: MapSite, rows: Mapping[ir.Value, ir.Value]) -> MapSite:
    """Return a map that reads the tensors that stand in the place of others."""
    elements = [(inner, source.moved(rows)) for inner, source in site.elements]
    shared = [(inner, rows.get(value, value)) for inner, value in site.shared]
    return dataclasses.replace(site, elements=elements, shared=shared)


def initializers_in(graph: ir.Graph) -> dict[ir.Value, None]:
    """Return the initializers of a graph and of those inside of it, in order."""
    inside = with_subgraphs(graph)
    return dict.fromkeys(v for inner in inside for v in inner.initializers.values())


def own_initializers(body: ir.Graph, original: ir.Graph) -> dict[ir.Value, ir.Value]:
    """Give a body copies of the initializers of the Loop's body that it was copied from."""
    foreign = initializers_in(original)
    copies: dict[ir.Value, ir.Value] = {}
    for node in walk_nodes(body):
        for position, value in enumerate(node.inputs):
            if value is None or value not in foreign:
                continue
            if value not in copies:
                copies[value] = copy_value(value)
                body.register_initializer(copies[value])
            node.replace_input_with(position, copies[value])
    return copies
