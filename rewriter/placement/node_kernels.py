"""Finds the kernel of a device for a node: by the table, and by attributes that it lacks."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.opsets import schema_of
from rewriter.placement.kernel_table import Kernel, KernelTable

__all__ = ["kernel_of"]


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
