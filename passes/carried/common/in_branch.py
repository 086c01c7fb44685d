"""What a branch computes and may fail at elsewhere: it stays in an If, with another value beside.

``if n_i > 2: total += mean(x_i)`` becomes ``total += (mean(x_i) if n_i > 2 else 0)``: a mean that
is an error where there is nothing runs for the samples that take it, and for no other.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from passes.batching.anywhere import runs_anywhere
from passes.batching.table import NEWEST
from passes.carried.common.selections import Selection
from passes.carried.pattern import added, branch_of
from passes.graph.graphs import is_operator
from passes.graph.made import operand, operands
from passes.typing.value_types import Typing

__all__ = ["failing_apart", "in_branch", "may_fail", "may_fail_apart"]


_APART: contextvars.ContextVar[frozenset[ir.Node]] = contextvars.ContextVar(
    "apart", default=frozenset()
)


@contextlib.contextmanager
def failing_apart(nodes: Iterable[ir.Node]) -> Iterator[None]:
    """Take some nodes of branches as such that may fail where their branch is not taken."""
    token = _APART.set(_APART.get() | frozenset(nodes))
    try:
        yield
    finally:
        _APART.reset(token)


def may_fail_apart(pairs: Iterable[tuple[ir.Node, ir.Node]], typing: Typing) -> bool:
    """Whether a node that stood in a branch may fail in iterations that do not take it.

    Args:
        pairs: Copies, each with the node that it is a copy of.
        typing: The proven typing.
    """
    known, of_rows = _APART.get(), set[ir.Value]()
    for _, node in pairs:
        if node in known:
            return True
        if _reads_row(node) or not of_rows.isdisjoint(operands(node)):
            of_rows.update(node.outputs)
        elif may_fail(node, typing):
            return True
    return False


def may_fail(node: ir.Node, typing: Typing) -> bool:
    """Whether a node may fail in iterations that do not take its branch, whatever it reads."""
    return not runs_anywhere(node, typing, NEWEST)


def _reads_row(node: ir.Node) -> bool:
    """Whether a node may read a row by the number of the iteration.

    It is checked later, and so is what is computed of it, whose shape is known then.
    """
    if is_operator(node, "Slice"):
        return True
    if not is_operator(node, "Gather"):
        return False
    index = operand(node, 1)
    return index.producer() is None and index.const_value is None


def in_branch(
    selection: Selection,
    value: ir.Value,
    copies: Sequence[ir.Node],
    other: ir.Value,
    pairs: Iterable[tuple[ir.Node, ir.Node]],
    typing: Typing,
    *,
    is_turned: bool = False,
    other_copies: Sequence[ir.Node] = (),
) -> ir.Node:
    """Return an If that yields a value where it is chosen, and another one otherwise.

    Args:
        selection: Says when.
        value: What the copies compute.
        copies: Copies of the nodes of the branch.
        other: What the If yields otherwise.
        pairs: Those copies that have a type, each with the node that it is a copy of.
        typing: The proven typing; it gains the copies.
        is_turned: Whether the value is chosen where the condition is false.
        other_copies: Nodes that compute the other value.
    """
    for copy, node in pairs:
        for new, old in zip(copy.outputs, node.outputs, strict=True):
            typing.set(new, typing[old])

    taken = branch_of("taken", copies, [value])
    left = branch_of("left", other_copies, [other])
    names = ("else_branch", "then_branch") if is_turned else ("then_branch", "else_branch")
    graphs = dict(zip(names, (taken, left), strict=True))
    return added("If", [selection.condition], graphs)
