"""Nodes that one walk over a body batched, and that have to stay in a loop all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.decisions import Code, Reason
from passes.graphs import captured_values, subgraphs

__all__ = ["Demotions"]


class Demotions:
    """The nodes that a walk has to keep when it is walked again.

    Attributes:
        nodes: The nodes, and why, for those whose rounding a discrete node would read.
    """

    def __init__(self, env: Mapping[ir.Value, Batched]) -> None:
        """Start with none.

        Args:
            env: What the walk knows of the values of the body; it grows with the walk.
        """
        self.nodes: dict[ir.Node, Reason | None] = {}
        self._env = env

    def between(self, node: ir.Node, stage: int) -> None:
        """Demote what a node reads of later stages than ``stage``, down to that stage.

        A value that differs in shape is then not carried from one loop to a later one.
        """
        self._trace(node, lambda x: x.stage > stage)

    def rounded(self, node: ir.Node, path_of: Callable[[ir.Node], str]) -> None:
        """Demote all that rounds on the way to a node."""
        for producer in self._trace(node, lambda x: x.rounding):
            detail = f"batching may round it differently, and it feeds {path_of(node)}"
            reason = Reason(Code.EXACT, path_of(producer), producer.op_type, detail)
            self.nodes[producer] = reason

    def _trace(self, node: ir.Node, is_demoted: Callable[[Batched], bool]) -> list[ir.Node]:
        """Demote what yields such values on the way to a node, and return what is new."""
        found = []
        pending = [node]
        while pending:
            for value in _read_by(pending.pop()):
                producer = value.producer()
                if producer is None or value not in self._env or producer in self.nodes:
                    continue
                if is_demoted(self._env[value]):
                    self.nodes[producer] = None
                    pending.append(producer)
                    found.append(producer)
        return found


def _read_by(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, captured values among them."""
    captured = [v for _, g in subgraphs(node) for v in captured_values(g)]
    return [v for v in (*node.inputs, *captured) if v is not None]
