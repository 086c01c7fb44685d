"""Replaces maps of a small known length by copies of their bodies."""

from __future__ import annotations

import dataclasses
import itertools

import onnx_ir as ir

from passes.batching.table import may_draw
from passes.body_copies import copy_body, rank_alone
from passes.builder import Builder, drop_uses
from passes.ceilings import ceiling_of
from passes.copies import counted, settle, weight_of
from passes.decisions import Decision, Verdict
from passes.folding import Folder
from passes.graphs import (
    default_opset,
    is_default_domain,
    node_paths,
    walk_nodes,
)
from passes.hidden import hide_type
from passes.prepare import prepare
from passes.sequence_map import find_sequence_maps, is_sequence_map, read_sequence_map
from passes.sequences.known import MAKERS, KnownSequences, maker
from passes.sequences.parts import Parts, Sliced
from passes.sequences.reads import SequenceReader
from passes.site import MapSite, SequenceSource
from passes.splice import splice
from passes.typing import type_values
from passes.typing.value_types import Typing

__all__ = ["MOST_NODES", "UnrollSequenceMapPass"]

MOST_NODES = 64
"""A map becomes so many nodes at most. One costs some 0.6 us where it is run and a step of a Loop
some 1.2 us more than its nodes: for time alone any length could be unrolled, and it is the size of
the model that a user has to look at which is limited."""


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A map and the copies of its body: recorded, not yet put into its graph.

    Attributes:
        site: The map.
        builder: The copies.
        results: For each output of the map its value for each sample.
        decision: The same for the reader.
    """

    site: MapSite
    builder: Builder
    results: list[list[ir.Value]]
    decision: Decision


class UnrollSequenceMapPass(ir.passes.InPlacePass):
    """Replace each SequenceMap of a small known length by that many copies of its body.

    1. The length is known if the first sequence is constructed, or cut by constants, see
       `passes.sequences.parts`.
    2. An If in a copy whose condition depends on the rank or the shape of its sample only becomes
       its branch.
    3. A map is unrolled where it becomes at most `MOST_NODES` nodes, or has one sample. Where it
       may still be fused without a guard, because all samples have one shape by proof or are
       slices of tensors, it must also become no more nodes than the batched form would have,
       with what stacks the samples and takes them apart.
    4. A body that draws random numbers stays: a copy with a seed would repeat the draw.

    Attributes:
        decisions: What was done with each map that is gone, in the order of the work.
    """

    def __init__(self, *, is_fused: bool = False) -> None:
        """Set up the pass.

        Args:
            is_fused: What could be fused has been: all that is left would become loops.
        """
        super().__init__()
        self._is_fused = is_fused
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Unroll the maps of a model, those inside of other maps first."""
        self.decisions = []
        modified = prepare(model)
        maps = [
            (graph, node)
            for graph, node in find_sequence_maps(model)
            if _is_made_here(node) and not ceiling_of(node)
        ]
        if not maps:
            return ir.passes.PassResult(model, modified)
        typing = type_values(model, proven=True, ranks=False)
        paths = node_paths(model)
        copies: list[ir.Node] = []
        for graph, node in maps:
            if node.graph is None:  # only a map that is gone has read it
                continue
            site = read_sequence_map(node, graph, paths[node], typing, with_boundaries=False)
            plan = _plan(site, typing, default_opset(model), is_fused=self._is_fused)
            if plan is None:
                continue
            _apply(plan, typing)
            self.decisions.append(plan.decision)
            copies.extend(walk_nodes(plan.builder.nodes))
        if not self.decisions:
            return ir.passes.PassResult(model, modified)
        settle(model, copies)
        return ir.passes.PassResult(model, True)


def _is_made_here(node: ir.Node) -> bool:
    """Whether the model makes the first sequence of a map, so that its length may be known."""
    while True:
        sequence = node.inputs[0] if node.inputs else None
        made = None if sequence is None else maker(sequence)
        if made is None or not is_sequence_map(made):
            return made is not None and made.op_type in MAKERS and is_default_domain(made)
        node = made


def _plan(site: MapSite, typing: Typing, opset: int, *, is_fused: bool) -> _Plan | None:
    """Record the copies of a body; None if the map is not to be unrolled."""
    folder = Folder(typing)
    known = KnownSequences(typing, folder)
    sources = [
        (inner, source.sequence)
        for inner, source in site.elements
        if isinstance(source, SequenceSource)
    ]
    first = known[sources[0][1]]
    count = None if first is None else first.count
    if not count or may_draw(site.node, opset):
        return None
    if count > 1 and count * len(site.body) > 16 * MOST_NODES:
        return None  # not worth the copies that are counted below
    builder, hiding = Builder(site.path), dict[ir.Value, ir.Value]()
    results: list[list[ir.Value]] = [[] for _ in site.body.outputs]
    once: dict[ir.Value, ir.Value | None] = dict(site.shared)
    builder.nodes.extend(copy_body(filter(_is_constant, site.body), once))
    weight = 0
    for k in range(count):
        values = dict(once)
        for inner, sequence in sources:
            values[inner] = _element(builder, sequence, known, k, hiding, typing)
        nodes = copy_body(itertools.filterfalse(_is_constant, site.body), values)
        builder.nodes.extend(nodes)
        typing.copy(values)
        weight += weight_of(nodes, folder)
        for held, value in zip(results, site.body.outputs, strict=True):
            result = values.get(value, value)
            assert result is not None
            held.append(result)
    limit: float = MOST_NODES
    if not is_fused:
        reader = SequenceReader(typing, known, opset)
        sequences = [known[sequence] for _, sequence in sources]
        if all(_may_batch(parts, reader) for parts in sequences):
            stacking = 0 if all(_is_cut(parts) for parts in sequences) else 2 * count + 2
            limit = min(limit, weight / count + stacking)
    if count > 1 and weight > limit:
        drop_uses(builder.nodes)
        return None
    form = f"{counted(count, 'copy', 'copies')}, {counted(weight, 'node', 'nodes')}"
    decision = Decision(site.path, site.node.op_type, Verdict.UNROLLED, form)
    return _Plan(site, builder, results, decision)


def _is_constant(node: ir.Node) -> bool:
    return node.op_type == "Constant" and is_default_domain(node)


def _element(
    builder: Builder,
    sequence: ir.Value,
    known: KnownSequences,
    position: int,
    hiding: dict[ir.Value, ir.Value],
    typing: Typing,
) -> ir.Value:
    """Return an element of a sequence: itself if it is listed, and read otherwise.

    What is read of an unknown sequence must not have its declared dimensions: onnxruntime would
    take elements of one symbol to have one size, and give one the memory of another.
    """
    parts = known[sequence]
    element = None if parts is None else parts.at(position)
    if isinstance(element, ir.Value):
        return element
    if parts is not None:
        return builder.op("SequenceAt", [sequence, builder.scalar(position)])
    if sequence not in hiding:
        hiding[sequence] = hide_type(builder, sequence, typing.dtype(sequence))
    element = builder.op("SequenceAt", [hiding[sequence], builder.scalar(position)])
    element.shape = rank_alone(sequence.shape)
    return element


def _may_batch(parts: Parts | None, reader: SequenceReader) -> bool:
    """Whether a sequence can be stacked or packed without a guard."""
    if parts is None:
        return False
    if _is_cut(parts):
        return True
    shapes = [reader.element_dims(part) for part in parts.parts]
    first = shapes[0]
    return (
        first is not None
        and all(isinstance(dim, int) for dim in first)
        and all(shape == first for shape in shapes)
    )


def _is_cut(parts: Parts | None) -> bool:
    """Whether the elements are all slices of one tensor."""
    return parts is not None and len(parts.parts) == 1 and isinstance(parts.parts[0], Sliced)


def _apply(plan: _Plan, typing: Typing) -> None:
    pairs = [
        (value, plan.builder.op("SequenceConstruct", held))
        for value, held in zip(plan.site.node.outputs, plan.results, strict=True)
        if value.uses() or value.is_graph_output()
    ]
    typing.copy(splice(plan.builder, plan.site.node, pairs))
