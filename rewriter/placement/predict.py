"""Predicts where each node of a model will run, from the table of a provider's kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import is_operator, local_name, subgraphs
from passes.graph.made import operand
from passes.graph.opsets import schema_of
from rewriter.placement.copies import count_copies
from rewriter.placement.host_rule import shape_arithmetic
from rewriter.placement.kernel_table import Kernel, KernelTable

__all__ = ["HostNode", "PredictedPlacement", "kernel_of", "predict"]


SHAPES = "arithmetic on shapes, which onnxruntime keeps there"


@dataclasses.dataclass(frozen=True)
class HostNode:
    """A node that will run on the host.

    Attributes:
        path: Its path through subgraphs.
        op: Its operator.
        reason: Why it is not on the device.
        is_shapes: Whether the device has a kernel, and the runtime keeps the node on the host.
    """

    path: str
    op: str
    reason: str
    is_shapes: bool = False


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


@dataclasses.dataclass(frozen=True)
class _Place:
    """A graph of the model, where it stands."""

    graph: ir.Graph
    prefix: str
    loop: str


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
    for place in _places(_Place(model.graph, "", "")):
        found = {
            node: kernel_of(node, table, model.opset_imports)
            for node in place.graph
            if node.op_type != "Constant" or node.domain
        }
        kernels = {node: one for node, one in found.items() if isinstance(one, Kernel)}
        kept = set[ir.Node]()
        if table.kind != "list":
            kept = shape_arithmetic(place.graph, kernels, twice=table.kind == "plugin")
        placed = {node: one for node, one in kernels.items() if node not in kept}
        merged = _merged_casts(place.graph, placed) if table.kind == "plugin" else set()
        count += len(placed.keys() - merged)
        for number, node in enumerate(place.graph):
            if node not in found or node in placed or node in merged:
                continue
            reason = SHAPES if node in kept else str(found[node])
            path = place.prefix + local_name(node, number)
            host.append(HostNode(path, node.op_type, reason, node in kept))
        made = count_copies(place.graph, placed, merges=table.device == "CUDA")
        copies += made
        if place.loop and made:
            looped[place.loop] = looped.get(place.loop, 0) + made
    told = tuple(looped.items())
    inside = sum(looped.values())
    return PredictedPlacement(
        table.provider, table.runtime, count, tuple(host), copies, inside, told, note
    )


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    for number, node in enumerate(place.graph):
        path = place.prefix + local_name(node, number)
        for name, inner in subgraphs(node):
            loop = path if node.op_type in ("Loop", "Scan") else place.loop
            yield from _places(_Place(inner, f"{path}/{name}/", loop))


def kernel_of(node: ir.Node, table: KernelTable, imports: dict[str, int]) -> Kernel | str:
    """Return the kernel of a device for a node, or why there is none."""
    version = _version(node, imports)
    found = table.find(node, version)
    if isinstance(found, Kernel) and (name := _host_attribute(node, table.device)):
        return f"no {table.device} kernel for this {name!r}"
    return found


def _version(node: ir.Node, imports: dict[str, int]) -> int | None:
    """Return the version of a node's operator; None where there is no schema."""
    opset = imports.get(node.domain, imports.get("ai.onnx", 1) if not node.domain else 1)
    schema = schema_of(node.op_type, opset, node.domain)
    return None if schema is None else schema.since_version


# What cuDNN's recurrent layers compute; for two directions the list comes twice.
_ACTIVATIONS = {
    "RNN": ["tanh"],
    "GRU": ["sigmoid", "tanh"],
    "LSTM": ["sigmoid", "tanh", "tanh"],
}


def _host_attribute(node: ir.Node, device: str) -> str:
    """Return the attribute for which a device leaves a node on the host; empty where none is."""
    if device != "CUDA" or node.domain:
        return ""
    if node.op_type in _ACTIVATIONS:
        return _of_recurrent(node)
    if node.op_type in ("ArgMax", "ArgMin"):
        name = "select_last_index"
        return name if node.attributes.get_int(name, 0) else ""
    if node.op_type == "ConvTranspose":
        pads = list(node.attributes.get_ints("pads", []))
        half = len(pads) // 2
        return "pads" if pads[:half] != pads[half:] else ""
    return ""


def _of_recurrent(node: ir.Node) -> str:
    for name in ("activation_alpha", "activation_beta", "clip"):
        if name in node.attributes:
            return name
    usual = _ACTIVATIONS[node.op_type]
    given = [str(one).lower() for one in node.attributes.get_strings("activations", [])]
    if given and given not in (usual, usual * 2):
        return "activations"
    if node.op_type == "GRU" and not node.attributes.get_int("linear_before_reset", 0):
        return "linear_before_reset"
    if node.attributes.get_int("input_forget", 0):
        return "input_forget"
    return "layout" if node.attributes.get_int("layout", 0) else ""


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
