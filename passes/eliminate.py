"""Replaces sequences by the tensors that they hold, where enough is known of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from passes.graph.graphs import (
    all_graphs,
    all_nodes,
    constant_value,
    default_opset,
    graphs_in_loops,
    is_operator,
    node_paths,
    subgraphs,
    walk_nodes,
)
from passes.graph.made import operand, operands, skip_identities
from passes.graph.names import make_names_unique
from passes.inline import InlineMapFunctionsPass
from passes.maps.sequence_source import MAKERS, maker
from passes.numbers.folding import Folder
from passes.sequence_operators import SEQUENCE_OPERATORS
from passes.sequences.carried_tensors import GROWS_KEY
from passes.sequences.known import KnownSequences
from passes.sequences.reads import READERS, SequenceReader
from passes.sequences.replaced_reads import remove_unread, replace_reads
from passes.sequences.yielded import is_read_for_tensors, yield_tensors
from passes.typing import type_values

__all__ = ["EliminateSequencesPass"]

_ARITHMETIC = frozenset({"Add", "Mul", "Sub"})
"""What a position is computed by that is no plain number of the iteration."""


class EliminateSequencesPass(ir.passes.InPlacePass):
    """Replace reads of sequences by reads of tensors, in every graph of a model.

    1. What is known of a sequence follows from how it is made: elements given one by one, slices
       of a tensor, or both in a row; inserted and erased at known positions; passed on by
       Identity.
    2. SequenceAt, SequenceLength and ConcatFromSequence are written on what is known. What is an
       error, such as a position out of range or a concatenation of nothing, is left as it is.
    3. An If that yields a sequence of one known length in both branches yields its elements. A
       Loop that carries a sequence only to append to it yields a scan output, where all elements
       have one shape by proof, or are stacked afterwards. A sequence that a Loop carries and
       never changes is read from outside.
    4. What then makes a sequence that nothing reads is removed.

    Sequences that are inputs or outputs of the model, and all others that too little
    is known of, stay.

    Attributes:
        warnings: What it costs that no sequence may be left.
    """

    def __init__(
        self, *, required: bool = False, in_bodies: bool = False, keeps_cuts: bool = False
    ) -> None:
        """Set up the pass.

        Args:
            required: No sequence may be left, at any cost: a sequence that a Loop appends to, and
                that is concatenated afterwards, becomes a tensor that each iteration copies.
            in_bodies: Only reads in the bodies of Loops and Scans are replaced, so that the
                bodies can be batched.
            keeps_cuts: Slices of given sizes that a Loop or Scan goes through stay a sequence,
                unless none may be left: an iteration reads an element by one operator, and a
                slice by four, which is slower where slices are small.
        """
        super().__init__()
        in_loops = (("Loop", "Scan"),) if in_bodies else ()
        self.only_for = (SEQUENCE_OPERATORS, *in_loops)
        self._required = required
        self._in_bodies = in_bodies
        self._keeps_cuts = keeps_cuts and not required
        self.warnings: list[str] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Eliminate what can be eliminated."""
        self.warnings = []
        if not _hold_sequences(model):
            return ir.passes.PassResult(model, False)
        modified = bool(model.functions) and InlineMapFunctionsPass()(model).modified
        modified |= make_names_unique(model)
        while self._eliminate(model):
            modified = True
        if modified:
            make_names_unique(model)
        grows = any(GROWS_KEY in node.metadata_props for node in all_nodes(model))
        self.warnings = [
            f"{path}: since no sequence may be left, each iteration copies what was appended so "
            "far, in quadratic time; where that is too slow, choose a target that has sequences, "
            "or compute all elements at once where the model is made"
            for node, path in (node_paths(model) if grows else {}).items()
            if GROWS_KEY in node.metadata_props
        ]
        return ir.passes.PassResult(model, modified)

    def _eliminate(self, model: ir.Model) -> bool:
        if self._in_bodies:
            return _eliminate_in_bodies(model)
        kept = set(_reads_of_cuts(model)) if self._keeps_cuts else set()
        return _eliminate(model, kept, required=self._required)


def _hold_sequences(model: ir.Model) -> bool:
    return any(is_operator(node, MAKERS) for graph in all_graphs(model) for node in graph)


def _may_gain(node: ir.Node, main: ir.Graph) -> bool:
    """Whether it is worth typing the model for a node: it reads or yields what is made here."""
    if is_operator(node, READERS):
        return is_operator(maker(operand(node, 0)), MAKERS)
    if not is_operator(node, ("If", "Loop")):
        return False
    if node.op_type == "If" and not any(is_read_for_tensors(v, main) for v in node.outputs):
        return False
    outputs = [value for _, graph in subgraphs(node) for value in graph.outputs]
    makers = [maker(value, through=("Identity",)) for value in outputs]
    return any(is_operator(made, MAKERS) for made in makers) or any(
        isinstance(value.type, ir.SequenceType) for value in outputs
    )


def _eliminate(model: ir.Model, kept: Collection[ir.Node], *, required: bool) -> bool:
    """Eliminate once what the types of the model as it is allow, but for some reads."""
    if not _hold_sequences(model):
        return False
    removed = remove_unread(model)
    nodes = [node for graph in all_graphs(model) for node in graph if node not in kept]
    if not any(_may_gain(node, model.graph) for node in nodes):
        return removed
    typing = type_values(model, proven=True, ranks=False)
    known = KnownSequences(typing, Folder(typing))
    opset = default_opset(model)
    if replace_reads(model, nodes, SequenceReader(typing, known, opset)):
        return True
    return yield_tensors(model, typing, known, opset, required=required) or removed


def _eliminate_in_bodies(model: ir.Model) -> bool:
    """Eliminate reads of cut tensors once, in the bodies of Loops and Scans."""
    loops = [node for node in all_nodes(model) if is_operator(node, ("Loop", "Scan"))]
    inside = [node for loop in loops for _, body in subgraphs(loop) for node in walk_nodes(body)]
    ifs = [node for node in inside if is_operator(node, "If")]
    branches = {graph for node in ifs for _, graph in subgraphs(node)}
    nodes = [node for node in dict.fromkeys(inside) if _reads_cut(node, branches)]
    if not nodes:
        return False
    typing = type_values(model, proven=True, ranks=False)
    known = KnownSequences(typing, Folder(typing))
    return replace_reads(model, nodes, SequenceReader(typing, known, default_opset(model)))


def _reads_of_cuts(model: ir.Model) -> Iterator[ir.Node]:
    """Yield what reads slices of given sizes in a Loop or Scan that goes through them."""
    outer = [model.graph, *(function.graph for function in model.functions.values())]
    for node in (node for one in outer for graph in graphs_in_loops(one) for node in graph):
        if not is_operator(node, "SequenceAt") or constant_value(node.inputs[1]) is not None:
            continue
        made = maker(operand(node, 0), through=("Identity",))
        if not is_operator(made, "SplitToSequence"):
            continue
        if len(operands(made)) > 1 and made.graph is not node.graph:
            yield node


def _reads_cut(node: ir.Node, branches: Collection[ir.Graph]) -> bool:
    """Whether a node reads a sequence that is cut out of a tensor.

    A sequence from outside of its graph is left to the map that goes through it, unless another
    position is read than the number of the iteration, or a row where a branch is taken.

    Args:
        node: A node inside of a Loop or Scan.
        branches: The branches of Ifs in there.
    """
    made = maker(operand(node, 0)) if is_operator(node, READERS) else None
    if not is_operator(made, "SplitToSequence"):
        return False
    if made.graph is node.graph:
        return True
    if node.op_type != "SequenceAt":
        return False
    is_row = len(operands(made)) == 1 and node.graph in branches
    return is_row or _is_computed_beside(operand(node, 1), node)


def _is_computed_beside(value: ir.Value, node: ir.Node) -> bool:
    """Whether the graph of a node computes a value from others."""
    made = skip_identities(value).producer()
    return made is not None and made.graph is node.graph and made.op_type in _ARITHMETIC
