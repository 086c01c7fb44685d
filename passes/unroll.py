"""Replaces maps and loops of a small known length by copies of their bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from passes.batching.table import families
from passes.decisions import Decision
from passes.graph.builder import BATCHED_KEY
from passes.graph.drafts import drafting
from passes.graph.graphs import (
    default_opset,
    graphs_inside,
    is_operator,
    node_paths,
    walk_nodes,
    with_subgraphs,
)
from passes.graph.made import before_identities, optional_operand
from passes.graph.names import make_names_unique
from passes.inline import functions_holding, inline_functions
from passes.loops.copies import Copies, settle
from passes.loops.unrolled import copy_iterations, is_marked_for_copies, may_be_few
from passes.maps.sequence_map import (
    find_sequence_maps,
    is_sequence_map,
    prepare,
    read_sequence_map,
)
from passes.maps.sequence_source import MAKERS, cut_tensor, maker
from passes.promises import Promises, ceiling_of
from passes.reading.iterations import is_given
from passes.sequences.unrolled import copy_samples
from passes.typing import Typing, type_values

__all__ = ["UnrollSequenceMapPass"]


class UnrollSequenceMapPass(ir.passes.InPlacePass):
    """Replace each SequenceMap of a small known length by that many copies of its body.

    1. The length is known if the first sequence is constructed, or cut by constants, see
       `passes.sequences.parts`.
    2. An If in a copy whose condition depends on the rank or the shape of its sample only becomes
       its branch.
    3. A map is unrolled where it becomes few nodes, or has one sample. Where it may still be fused
       without a guard, because all samples have one shape by proof or are slices of tensors, it
       must also become no more nodes than the batched form would have, with what stacks the
       samples and takes them apart.
    4. A body that draws random numbers stays: a copy with a seed would repeat the draw.
    5. Loops and Scans that fusing left are unrolled, too, recurrences among them: those that it
       marked, those that become few nodes, and for a target without them those that become more.
       What a rewrite wrote itself stays, but for a Loop of the model that runs for all samples at
       once. Functions of the model that hold such a Loop are inlined.

    Attributes:
        decisions: What was done with each map and Loop that is gone, in the order of the work.
    """

    def __init__(
        self,
        *,
        is_fused: bool = False,
        loops: Collection[str] = (),
        few: bool = False,
        promises: Promises | None = None,
    ) -> None:
        """Set up the pass.

        Args:
            is_fused: What could be fused has been: all that is left would become loops.
            loops: Which of Loop and Scan are unrolled, and no SequenceMap.
            few: Of these only those that become few nodes, or that fusing found to be fastest as
                copies.
            promises: What the caller promises of the shapes that tell how often a Loop runs.
        """
        super().__init__()
        self.only_for = (("Loop", "Scan") if loops else ("SequenceMap",),)
        self._is_fused = is_fused
        self._loops = loops
        self._few = few
        self._promises = promises
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Unroll the maps of a model, those inside of other maps first."""
        self.decisions = []
        if self._loops:
            return ir.passes.PassResult(model, self._unroll_loops(model))
        modified = prepare(model)
        maps = [
            (graph, node)
            for graph, node in find_sequence_maps(model)
            if _is_made_here(node) and not ceiling_of(node) and not _cuts_open_input(node, model)
        ]
        if not maps:
            return ir.passes.PassResult(model, modified)
        typing = type_values(model, proven=True, ranks=False)
        maps = [(graph, node) for graph, node in maps if not _has_many(node, typing)]
        paths = node_paths(model) if maps else {}
        copies: list[ir.Node] = []
        for graph, node in maps:
            if node.graph is None:
                continue  # only a map that is gone has read it
            site = read_sequence_map(node, graph, paths[node], typing, with_boundaries=False)
            with drafting() as draft:
                made = copy_samples(site, typing, default_opset(model), is_fused=self._is_fused)
                if made is not None:
                    draft.keep(made.builder.nodes)
                    copies += self._put(made, typing)
        if self.decisions:
            settle(model, copies)
        return ir.passes.PassResult(model, modified or bool(self.decisions))

    def _put(self, made: Copies, typing: Typing) -> Iterator[ir.Node]:
        self.decisions.append(made.put(typing))
        return walk_nodes(made.builder.nodes)

    def _unroll_loops(self, model: ir.Model) -> bool:
        """Unroll the Loops of the main graph and of all graphs in it, inner ones first."""
        chosen = functions_holding(model, self._is_wanted)
        if not chosen and not self._find_loops(model):
            return False
        modified = make_names_unique(model)
        if chosen:
            inline_functions(model, chosen)
            modified = True
        while (copies := self._unroll_innermost(model)) is not None:
            settle(model, copies)
        return modified or bool(self.decisions)

    def _find_loops(self, model: ir.Model) -> list[ir.Node]:
        graphs = reversed(list(with_subgraphs(model.graph)))
        return [node for graph in graphs for node in graph if self._is_wanted(node)]

    def _is_wanted(self, node: ir.Node) -> bool:
        if node.op_type not in self._loops or ceiling_of(node):
            return False
        if self._few and not is_marked_for_copies(node) and not may_be_few(node):
            return False
        return is_given(node) or BATCHED_KEY in node.metadata_props

    def _unroll_innermost(self, model: ir.Model) -> list[ir.Node] | None:
        """Unroll Loops in which none was unrolled; return the copies, None if there are none."""
        typing = type_values(model, proven=True, ranks=False, promises=self._promises)
        paths = node_paths(model)
        changed: set[ir.Graph | None] = set()
        copies: list[ir.Node] = []
        for node in self._find_loops(model):
            if changed.intersection(graphs_inside(node)):
                continue
            with drafting() as draft:
                few = self._few and not is_marked_for_copies(node)
                path = node.metadata_props.get(BATCHED_KEY, paths[node])
                made = copy_iterations(node, path, typing, model, few=few)
                if made is not None:
                    draft.keep(made.builder.nodes)
                    changed.add(node.graph)
                    copies += self._put(made, typing)
        return copies if changed else None


def _cuts_open_input(node: ir.Node, model: ir.Model) -> bool:
    """Whether the first sequence of a map is an input, cut along an axis without a known size.

    Operators that work element by element may stand between. No inference knows more of the size,
    so that a large model is not typed for the question.
    """
    sequence = node.inputs[0]
    cut = None if sequence is None else before_identities(sequence).producer()
    if not is_operator(cut, "SplitToSequence") or optional_operand(cut, 1) is not None:
        return False
    tensor, axis = cut.inputs[0], cut.attributes.get_int("axis", 0)
    while tensor is not None and (made := tensor.producer()) is not None and _keeps_shape(made):
        tensor = made.inputs[0]
    if tensor is None or tensor.is_initializer() or tensor not in model.graph.inputs:
        return False
    dims = [] if tensor.shape is None else list(tensor.shape)
    return -len(dims) <= axis < len(dims) and not isinstance(dims[axis], int)


def _keeps_shape(node: ir.Node) -> bool:
    """Whether a node works on each element of its one operand."""
    return len(node.inputs) == 1 and "elementwise" in families(node)


def _has_many(node: ir.Node, typing: Typing) -> bool:
    """Whether the first sequence of a map is a tensor, cut along an axis of unknown size."""
    sequence = node.inputs[0]
    cut = None if sequence is None else cut_tensor(sequence, typing)
    return cut is not None and cut.split is None and cut.number(typing) is None


def _is_made_here(node: ir.Node) -> bool:
    """Whether the model makes the first sequence of a map, so that its length may be known."""
    while True:
        sequence = node.inputs[0] if node.inputs else None
        made = None if sequence is None else maker(sequence)
        if made is None or not is_sequence_map(made):
            return is_operator(made, MAKERS)
        node = made
