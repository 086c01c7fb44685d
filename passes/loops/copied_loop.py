"""The Loop or Scan that a map was read from, as its model has it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.graphs import graphs_inside, is_operator
from passes.graph.node_copies import copy_nodes
from passes.graph.splice import remove_dead
from passes.site import MapSite
from passes.typing import Typings

__all__ = ["CopiedLoop", "copied_loop", "copied_original", "may_be_copied"]

_MOST_BYTES = 4096
"""So many bytes of weights are copied with a Loop: TensorFlow's loops hold their numbers."""


@dataclasses.dataclass(frozen=True)
class CopiedLoop:
    """A Loop or Scan, and what its model makes of its outputs.

    Attributes:
        site: The map that was read from it.
        nodes: The nodes that a copy consists of.
        given: For each result of the map the value that its model has for it.
    """

    site: MapSite
    nodes: Sequence[ir.Node]
    given: Mapping[ir.Value, ir.Value]

    def write(self, builder: Builder) -> list[ir.Value]:
        """Record a copy and return the value of each result of the map."""
        values: dict[ir.Value, ir.Value | None] = {}
        copies = _copies([*_empty_sequences(self.nodes), *self.nodes], values)
        for node in copies:
            node.metadata_props[ORIGIN_KEY] = self.site.path
        builder.nodes.extend(copies)
        results = [values[self.given[result.value]] for result in self.site.results]
        return [value for value in results if value is not None]


def copied_loop(site: MapSite, typings: Typings) -> CopiedLoop | None:
    """Return what can be copied of a map that was a Loop or Scan; None where nothing can.

    Elements of a sequence are better read through another type than its model has for them. A
    result that is reversed is made otherwise.
    """
    if len(site.originals) != 1 or any(result.is_reversed for result in site.results):
        return None
    (original,) = site.originals
    if not may_be_copied(original.node, site, typings):
        return None
    loop, given = original.node, {new: old for old, new in original.values}
    nodes = [loop]
    for result in site.results:
        if result.value not in given:
            return None  # operators behind the map read it, and no output of the Loop is it
        node = given[result.value].producer()
        if node is None or (node is not loop and not _reads(node, loop)):
            return None
        if node not in nodes:
            nodes.append(node)
    return CopiedLoop(site, nodes, given)


def copied_original(
    site: MapSite, typings: Typings
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]] | None:
    """Record a copy of what a map was read from, with the ConcatFromSequences behind it.

    Returns:
        The copy, and for each value that stands in the place of one of the model's that of the
        copy; None where it may not be copied.
    """
    (original,) = site.originals
    may_be = may_be_copied if original.rest is None else _may_be_copied_beside_a_part
    if not may_be(original.node, site, typings):
        return None
    values: dict[ir.Value, ir.Value | None] = {}
    given = [node for node, _ in original.nodes]
    copies = _copies([*_empty_sequences(given), *given], values)
    for node in copies:
        node.metadata_props[ORIGIN_KEY] = original.path
    pairs = ((new, values.get(old)) for old, new in original.values)
    return copies, {new: copy for new, copy in pairs if copy is not None}


def _copies(nodes: Sequence[ir.Node], values: dict[ir.Value, ir.Value | None]) -> list[ir.Node]:
    """Copy nodes without what nothing reads in their graphs: runtimes run it in each iteration."""
    copies = copy_nodes(nodes, values)
    for node in copies:
        for graph in graphs_inside(node):
            remove_dead(list(graph))
            _yield_copies(graph)
            for value in graph.initializers.values():
                _own_weights(value)
    return copies


def _own_weights(value: ir.Value) -> None:
    """Give an initializer weights of its own, which carry its name."""
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy(), name=value.name)


def _yield_copies(graph: ir.Graph) -> None:
    """Let a body yield copies of what it is handed.

    onnxruntime ends the process on some bodies in branches that yield an input.
    """
    for at, value in enumerate(graph.outputs):
        if value in graph.inputs:
            node = ir.node("Identity", [value])
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[at] = node.outputs[0]


def _empty_sequences(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Return what makes the empty sequences that nodes read.

    Where a branch reads a sequence from outside, onnxruntime plans no memory for all in it: each
    of its nodes takes some hundred nanoseconds more.
    """
    read = (value.producer() for node in nodes for value in node.inputs if value is not None)
    return list(dict.fromkeys(one for one in read if is_operator(one, "SequenceEmpty")))


def may_be_copied(loop: ir.Node, site: MapSite, typings: Typings) -> bool:
    """Whether a Loop or Scan may stand in a branch as it is.

    The initializers of a body would be copied too. onnxruntime ends the process on some bodies in
    branches that yield what they are handed, and refuses a body in which declared dimensions
    contradict each other.
    """
    bodies = list(graphs_inside(loop))
    if any(graph.initializers or set(graph.outputs) & set(graph.inputs) for graph in bodies):
        return False
    return site.body not in typings.contradicted


def _may_be_copied_beside_a_part(loop: ir.Node, site: MapSite, typings: Typings) -> bool:
    """Whether a Loop may stand in a branch where a part of it is left anyway.

    Its weights have to be small.
    """
    graphs = graphs_inside(loop)
    weights = [value.const_value for graph in graphs for value in graph.initializers.values()]
    size = sum(math.inf if one is None else one.nbytes for one in weights)
    return size <= _MOST_BYTES and site.body not in typings.contradicted


def _reads(node: ir.Node, loop: ir.Node) -> bool:
    return all(value is None or value.producer() is loop for value in node.inputs)
