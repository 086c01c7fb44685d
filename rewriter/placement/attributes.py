"""Attributes that a provider's kernels do not know: it leaves such a node on the host."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["host_attribute"]

# What cuDNN's recurrent layers compute; for two directions the list comes twice.
_ACTIVATIONS = {
    "RNN": ["tanh"],
    "GRU": ["sigmoid", "tanh"],
    "LSTM": ["sigmoid", "tanh", "tanh"],
}


def host_attribute(node: ir.Node, device: str) -> str:
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
