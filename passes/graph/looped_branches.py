"""Branches of many nodes that a Loop of few may stand for: it is loaded many times as fast.

Who writes such a branch offers the Loop with it. It is taken where a Loop stands beside it anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.graph.drafts import drop_uses
from passes.graph.graphs import captured_values, walk_nodes
from passes.graph.opsets import to_opset_form

__all__ = ["offer_loop", "take_loops"]

_KEY = "seqmap.looped"
_BRANCH = "then_branch"


@dataclasses.dataclass(frozen=True)
class _Offer:
    """What writes a branch as a Loop; a copy of the node has a branch of its own."""

    node: ir.Node
    write: Callable[[Builder], Sequence[ir.Value]]


def offer_loop(node: ir.Node, write: Callable[[Builder], Sequence[ir.Value]]) -> None:
    """Remember how the first branch of an If is written as a Loop.

    Args:
        node: The If.
        write: Records the Loop, which reads no more than the branch, and returns its values.
    """
    node.meta[_KEY] = _Offer(node, write)


def take_loops(nodes: Iterable[ir.Node], origin: str, opset: int) -> None:
    """Let a Loop stand in each branch that offers one.

    A branch stays where it reads other values by now than those that it was written of.

    Args:
        nodes: Nodes of a graph; those inside of them are looked at, too.
        origin: Path of the node that the Loop stands for.
        opset: Version of ONNX's operators.
    """
    for node in list(walk_nodes(nodes)):
        offer = node.meta.get(_KEY)
        if offer is None or offer.node is not node:
            continue
        old = node.attributes[_BRANCH].as_graph()
        builder = Builder(origin, opset)
        values = offer.write(builder)
        to_opset_form(builder.nodes, opset)
        new = builder.close(old.name or _BRANCH, [], values)
        reads_more = not set(captured_values(new)) <= set(captured_values(old))
        kept, dropped = (old, new) if reads_more else (new, old)
        drop_uses(dropped)
        node.attributes[_BRANCH] = ir.AttrGraph(_BRANCH, kept)
