"""What a branch computes anew that the body around it has computed already.

PyTorch writes ``if ids[b, t] > 0: out[ids[b, t]] = 1`` with both reads of ``ids``. The second one
cannot fail where the first one did not, whatever the condition is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import onnx_ir as ir

from passes.batching import table
from passes.graph.graphs import constant_value, is_default_domain, subgraphs
from passes.graph.made import skip_identities
from passes.graph.scopes import Scope

__all__ = ["known_outside", "made_twice"]


def known_outside(branches: Sequence[ir.Graph], scope: Scope) -> dict[ir.Value, ir.Value]:
    """Return values of branches, and those around them that are the same.

    Args:
        branches: The branches of an If.
        scope: The body that it stands in.
    """
    work = _Work()
    work.enter(node for graph in scope.graphs if graph not in branches for node in graph)
    return work.same(node for graph in branches for node in graph)


def made_twice(scope: Scope) -> dict[ir.Value, ir.Value]:
    """Return values of a body and branches in it, and those computed before that are the same."""
    work = _Work()
    return work.same_before(scope)


class _Work:
    """Nodes by what they compute."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[ir.Node]] = {}
        self._same: dict[ir.Value, ir.Value] = {}

    def enter(self, nodes: Iterable[ir.Node]) -> None:
        """Enter nodes that run; of two that are the same the first one counts."""
        for node in nodes:
            if not self._replace(node):
                self._known.setdefault(self._key(node), []).append(node)

    def same(self, nodes: Iterable[ir.Node]) -> dict[ir.Value, ir.Value]:
        """Return the results of nodes that are those of nodes which were entered."""
        found: dict[ir.Value, ir.Value] = {}
        for node in nodes:
            if self._replace(node):
                found |= {value: self._same[value] for value in node.outputs}
        return found

    def same_before(self, nodes: Iterable[ir.Node]) -> dict[ir.Value, ir.Value]:
        """Enter nodes in order; return the results of those that are the same as earlier ones."""
        found: dict[ir.Value, ir.Value] = {}
        for node in nodes:
            known = self.same([node])
            found |= known
            if not known:
                self.enter([node])
        return found

    def _replace(self, node: ir.Node) -> bool:
        if not _is_plain(node):
            return False
        for other in self._known.get(self._key(node), ()):
            if dict(node.attributes) == dict(other.attributes):
                self._same.update(zip(node.outputs, other.outputs, strict=True))
                return True
        return False

    def _key(self, node: ir.Node) -> Hashable:
        operands = (None if v is None else self._operand(v) for v in node.inputs)
        return (node.op_type, len(node.outputs), *operands)

    def _operand(self, value: ir.Value) -> Hashable:
        value = skip_identities(value)
        value = self._same.get(value, value)
        array = constant_value(value)
        if array is None:
            return value
        return (str(array.dtype), array.shape, array.tobytes())


def _is_plain(node: ir.Node) -> bool:
    """Whether two nodes of a kind compute the same of the same operands."""
    if any(True for _ in subgraphs(node)) or not is_default_domain(node):
        return False
    row = table.find(node, table.NEWEST)
    return isinstance(row, table.Row) and not row.draws
