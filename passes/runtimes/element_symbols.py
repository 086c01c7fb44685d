"""Hides from onnxruntime which symbols the sizes of the elements of a sequence share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, is_operator
from passes.graph.hidden import hide_type
from passes.graph.made import operand, skip_identities
from passes.graph.node_copies import rank_alone
from passes.runtimes.sidestep import OthersPass
from passes.typing import Typing

__all__ = ["ElementSymbolsPass"]


class ElementSymbolsPass(OthersPass):
    """Hide the declared shape of elements that new nodes read side by side.

    A sequence may be declared as ``seq(float[H,W])`` and hold images of any size: each element has
    a height and a width. onnxruntime takes two elements of one symbol to have one size, gives one
    the memory of the other, and fails where they differ. In a Loop that reads one element an
    iteration that does no harm; where copies of its body stand side by side it does.

    Reads that the model's author wrote stay as they are, and so do those of elements whose equal
    sizes are promised.
    """

    only_for = (("SequenceAt",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the elements that each graph reads, by itself."""
        others = {node for node in self._others(model) if is_operator(node, "SequenceAt")}
        if not others:
            return ir.passes.PassResult(model, False)
        beside = [[n for n in _beside_others(graph) if n in others] for graph in all_graphs(model)]
        made: list[ir.Node] = []
        for reads in filter(None, beside):
            typing = self._typing(model)
            made += _hide([read for read in reads if not _is_proven(read, typing)], typing)
        if self._kept is not None:
            self._kept.enter(made, model)
        return ir.passes.PassResult(model, bool(made))


def _beside_others(graph: ir.Graph) -> list[ir.Node]:
    """Return the reads of elements that share a symbol with another element, which is read too."""
    reads = [node for node in graph if is_operator(node, "SequenceAt")]
    elements = defaultdict[str | None, set[tuple[ir.Value, ir.Value]]](set)
    for node in reads:
        for _, symbol in _symbols(_sequence(node)):
            elements[symbol].add((_sequence(node), operand(node, 1)))
    return [
        node
        for node in reads
        if any(len(elements[symbol]) > 1 for _, symbol in _symbols(_sequence(node)))
    ]


def _sequence(read: ir.Node) -> ir.Value:
    return skip_identities(operand(read, 0))


def _symbols(sequence: ir.Value) -> set[tuple[int, str | None]]:
    """Return the axes for which a symbol of the elements is declared, and the symbols."""
    dims = enumerate(sequence.shape or ())
    return {(axis, d.value) for axis, d in dims if isinstance(d, ir.SymbolicDim) and d.value}


def _is_proven(read: ir.Node, typing: Typing) -> bool:
    sequence = _sequence(read)
    return _symbols(sequence) <= set(enumerate(typing.dims(sequence) or ()))


def _hide(reads: Iterable[ir.Node], typing: Typing) -> list[ir.Node]:
    """Let reads of one graph read sequences of hidden type; return what is new."""
    made: list[ir.Node] = []
    hidden: dict[ir.Value, ir.Value] = {}
    for read in reads:
        sequence = operand(read, 0)
        if sequence not in hidden:
            builder, graph = Builder.at(read), read.graph
            assert graph is not None
            hidden[sequence] = hide_type(builder, sequence, typing.dtype(sequence))
            graph.insert_before(read, builder.nodes)
            made += builder.nodes
        read.replace_input_with(0, hidden[sequence])
        read.outputs[0].shape = rank_alone(read.outputs[0].shape)
    return made
