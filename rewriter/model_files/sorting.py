"""The nodes of a graph in the order that ONNX requires."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Mapping, Sequence

import onnx

from rewriter.errors import ModelError, ModelWarning

__all__ = ["sort_nodes"]


def sort_nodes(
    owner: onnx.GraphProto | onnx.FunctionProto,
    paths: Sequence[str],
    reads: Sequence[set[str]],
    makers: Mapping[str, int],
) -> None:
    """Put nodes behind those that they read, with a warning where any has to move.

    ONNX requires that order, and onnxruntime does not. Nodes that may keep their order do.

    Args:
        owner: What holds the nodes.
        paths: The path of each node.
        reads: The names that each node and its bodies read.
        makers: The position of the node that makes a name.

    Raises:
        ModelError: Nodes read each other's results in a circle.
    """
    needs = [{makers[name] for name in names if name in makers} for names in reads]
    early = next((i for i, before in enumerate(needs) if before and max(before) >= i), None)
    if early is None:
        return
    order = _order(needs)
    if len(order) < len(needs):
        stuck = [path for index, path in enumerate(paths) if index not in order]
        raise ModelError(
            f"the nodes {', '.join(map(repr, stuck[:5]))} read each other's results in a circle: "
            "break it where the model is made"
        )
    late = max(needs[early])
    name = next(name for name in sorted(reads[early]) if makers.get(name) == late)
    warnings.warn(
        f"the model is not topologically sorted, as ONNX requires: {paths[early]!r} reads "
        f"{name!r} before {paths[late]!r} makes it; its nodes are sorted here",
        ModelWarning,
        stacklevel=2,
    )
    nodes = [onnx.NodeProto() for _ in order]
    for node, index in zip(nodes, order, strict=True):
        node.CopyFrom(owner.node[index])
    del owner.node[:]
    owner.node.extend(nodes)


def _order(needs: Sequence[set[int]]) -> list[int]:
    """Return a topological order; it lacks what stands in or behind a circle."""
    readers: dict[int, list[int]] = {}
    for index, before in enumerate(needs):
        for one in before:
            readers.setdefault(one, []).append(index)
    waiting = [len(before) for before in needs]
    ready = [index for index, number in enumerate(waiting) if not number]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order
