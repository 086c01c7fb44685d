"""Copies of a body that stand where a map or a loop was: what they weigh, and how they settle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.decisions import Decision, Verdict
from passes.fold_branches import chosen_branch, fold_branches
from passes.graph.builder import Builder
from passes.graph.graphs import is_operator, subgraphs
from passes.graph.made import operand
from passes.graph.names import make_names_unique
from passes.graph.splice import remove_dead, splice
from passes.numbers.folding import Folder
from passes.typing import Typing, type_values

__all__ = ["FEW_NODES", "Copies", "constants_apart", "settle", "weight_of"]

FEW_NODES = 64
"""A map or a Loop becomes so many nodes at most where nothing asks for it. One costs some 0.6 us
where it is run and a step of a Loop some 1.2 us more than its nodes: for time alone any length
could be unrolled, and it is the size of the model that a user has to look at which is limited."""


@dataclasses.dataclass(frozen=True)
class Copies:
    """A map or a loop as copies of its body: recorded, not yet put into its graph.

    Attributes:
        node: What they take the place of.
        path: Its path, for messages.
        builder: The copies.
        results: Each value of the node that is read, and the one that stands for it.
        count: How many copies there are.
        weight: How many nodes they are in all.
    """

    node: ir.Node
    path: str
    builder: Builder
    results: Sequence[tuple[ir.Value, ir.Value]]
    count: int
    weight: int

    def put(self, typing: Typing) -> Decision:
        """Put the copies into the place of the node; return what was done."""
        typing.copy(splice(self.builder, self.node, self.results))
        form = (
            f"{_counted(self.count, 'copy', 'copies')}, {_counted(self.weight, 'node', 'nodes')}"
        )
        return Decision(self.path, self.node.op_type, Verdict.UNROLLED, form)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def weight_of(nodes: Iterable[ir.Node], folder: Folder) -> int:
    """Count the nodes that are left of a copy once what is known is folded."""
    weight = 0
    for node in nodes:
        branch = chosen_branch(node, folder)
        if branch is not None:
            weight += weight_of(branch, folder)
        elif not is_operator(node, ("Constant", "Identity")):
            weight += all(folder.value(value) is None for value in node.outputs)
            weight += sum(weight_of(graph, folder) for _, graph in subgraphs(node))
    return weight


def constants_apart(body: Iterable[ir.Node]) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the constants of a body, which all copies share, and its other nodes."""
    constants: list[ir.Node] = []
    others: list[ir.Node] = []
    for node in body:
        (constants if is_operator(node, "Constant") else others).append(node)
    return constants, others


def settle(model: ir.Model, copies: Sequence[ir.Node]) -> None:
    """Fold what is known in copies now that they stand in their graphs, and name their values.

    An If whose branch is known becomes the branch, and Identity goes where it yields no output.
    """
    folder = Folder(type_values(model, proven=True, ranks=False))
    fold_branches([copy for copy in copies if copy.graph is not None], folder)
    _forward(copies)
    make_names_unique(model)


def _forward(nodes: Iterable[ir.Node]) -> None:
    """Let readers of an Identity read its operand, if the node that it stands in is not gone."""
    for node in nodes:
        if node.graph is None or not is_operator(node, "Identity") or node.inputs[0] is None:
            continue
        if not node.outputs[0].is_graph_output():
            node.outputs[0].replace_all_uses_with(operand(node, 0))
            remove_dead([node])
