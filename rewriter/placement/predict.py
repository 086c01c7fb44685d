"""Predicts where each node of a model will run, from the table of a provider's kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import is_operator, local_name
from passes.graph.made import operand
from rewriter.placement.kernel_table import KernelTable
from rewriter.placement.placed_graphs import placed_graphs

__all__ = ["HostNode", "PredictedPlacement", "predict"]


SHAPES = "arithmetic on shapes, which onnxruntime keeps there"


@dataclasses.dataclass(frozen=True)
class HostNode:
    """A node that will run on the host.

    Attributes:
        path: Its path through subgraphs.
        op: Its operator.
        reason: Why it is not on the device.
        is_shapes: Whether the device has a kernel, and the runtime keeps the node on the host.
        is_counting: Whether it computes with whole numbers and flags alone, or hands them over.
    """

    path: str
    op: str
    reason: str
    is_shapes: bool = False
    is_counting: bool = False


@dataclasses.dataclass(frozen=True)
class PredictedPlacement:
    """Where the nodes of a model will run.

    Attributes:
        provider: The execution provider.
        runtime: The runtime that the tables were read from.
        device: The number of nodes on the device.
        host: The nodes on the host.
        copies: How many values are copied between the two, each graph counted once.
        copies_per_iteration: How many of them are copied in every iteration of a loop.
        looped: The loops with copies in each iteration, by path, and how many.
        note: What keeps the prediction from being exact; empty where nothing is known to.
        settings: The entries of the session's configuration that it holds with.
    """

    provider: str
    runtime: str
    device: int
    host: tuple[HostNode, ...]
    copies: int
    copies_per_iteration: int
    looped: tuple[tuple[str, int], ...] = ()
    note: str = ""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the placement as plain values."""
        return {
            "provider": self.provider,
            "runtime": self.runtime,
            "device": self.device,
            "host": [{"path": one.path, "op": one.op, "reason": one.reason} for one in self.host],
            "copies": self.copies,
            "copies_per_iteration": self.copies_per_iteration,
            "loops_that_copy": [{"path": path, "copies": n} for path, n in self.looped],
            "note": self.note,
            "settings": dict(self.settings),
        }


def predict(model: ir.Model, table: KernelTable, note: str = "") -> PredictedPlacement:
    """Return where the nodes of a model will run.

    Args:
        model: The model as its runtime optimizes it before it places nodes, values typed, without
            model-local functions.
        table: The kernels of the provider.
        note: What to tell beside it.
    """
    count, copies = 0, 0
    host: list[HostNode] = []
    looped: dict[str, int] = {}
    for one in placed_graphs(model, table):
        merged = _merged_casts(one.graph, one.placed) if table.kind == "plugin" else set()
        count += len(one.placed.keys() - merged)
        for number, node in enumerate(one.graph):
            if node not in one.found or node in one.placed or node in merged:
                continue
            reason = SHAPES if node in one.kept else str(one.found[node])
            path = one.prefix + local_name(node, number)
            is_shapes, is_counting = node in one.kept, _is_counting(node)
            host.append(HostNode(path, node.op_type, reason, is_shapes, is_counting))
        copies += one.copies
        if one.loop and one.copies:
            looped[one.loop_path] = looped.get(one.loop_path, 0) + one.copies
    told = tuple(looped.items())
    inside = sum(looped.values())
    return PredictedPlacement(
        table.provider, table.runtime, count, tuple(host), copies, inside, told, note
    )


_HANDING_OVER = ("Cast", "Shape")


def _is_counting(node: ir.Node) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    return is_operator(node, _HANDING_OVER) or not any(
        value.dtype is not None and value.dtype.is_floating_point() for value in values
    )


def _merged_casts(nodes: Iterable[ir.Node], placed: Collection[ir.Node]) -> set[ir.Node]:
    """Return the Casts whose readers are all Casts on the same side, which read past them.

    A Cast from int64 to int32 stays where int64 comes behind it: it takes the upper half away.

    Args:
        nodes: The nodes of a graph, values typed.
        placed: Those of them that are on the device.
    """
    return {node for node in nodes if is_operator(node, "Cast") and _is_merged(node, placed)}


def _is_merged(cast: ir.Node, placed: Collection[ir.Node]) -> bool:
    result = cast.outputs[0]
    readers = result.consumers()
    if not readers or result.is_graph_output():
        return False
    if not all(_follows(one, cast, placed) for one in readers):
        return False
    given, between = operand(cast, 0).dtype, result.dtype
    behind = [one.outputs[0].dtype for one in readers]
    if _holds(between, given):
        return True
    return all(one != ir.DataType.BOOL and _holds(between, one) for one in behind)


def _follows(reader: ir.Node, cast: ir.Node, placed: Collection[ir.Node]) -> bool:
    is_cast = is_operator(reader, "Cast") and reader.graph is cast.graph
    return is_cast and (reader in placed) == (cast in placed)


def _holds(dtype: ir.DataType | None, other: ir.DataType | None) -> bool:
    """Return whether a type has each value of another one."""
    if dtype is None or other is None:
        return False
    if dtype.is_floating_point() and other in (ir.DataType.INT64, ir.DataType.UINT64):
        return False
    return np.can_cast(other.numpy(), dtype.numpy())
