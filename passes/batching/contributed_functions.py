"""What onnxruntime's fused operators stand for: an operator of ONNX, and an activation.

onnxruntime's optimizer writes them when it saves a model. Other runtimes know none of them, and
onnxruntime fuses the two again when it loads the new model. Source: onnxruntime's documentation
of its contributed operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
import onnx_ir as ir

__all__ = ["fused_function"]

_DOMAIN = "com.microsoft"
_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_GEMM = ("alpha", "beta", "transA", "transB")
_PARAMETERS = {
    "": (),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""The parameters of activations; those of Clip are inputs."""


def fused_function(node: ir.Node) -> ir.Function | None:
    """Return the function that a FusedConv or FusedGemm stands for, None for another node."""
    if node.domain != _DOMAIN or any(a.is_ref() for a in node.attributes.values()):
        return None
    if node.op_type == "FusedConv":
        found = node.attributes.get("activation_params")
        return _function(node, "Conv", _CONV, () if found is None else found.as_floats())
    if node.op_type == "FusedGemm":
        names = ("activation_alpha", "activation_beta", "activation_gamma")
        given = [node.attributes[n].as_float() for n in names if n in node.attributes]
        return _function(node, "Gemm", _GEMM, given)
    return None


def _function(
    node: ir.Node, op_type: str, names: Iterable[str], numbers: Sequence[float]
) -> ir.Function | None:
    """Return the operator, what is added to it, and its activation."""
    activation = node.attributes.get_string("activation", "") or ""
    if activation != "Clip" and activation not in _PARAMETERS:
        return None
    formal = [f"i{k}" for k in range(len(node.inputs))]
    read = [name if v is not None else "" for name, v in zip(formal, node.inputs, strict=True)]
    kept = [
        ir.serde.serialize_attribute(node.attributes[n]) for n in names if n in node.attributes
    ]
    made = onnx.helper.make_node(op_type, read[:3], ["made"], name=op_type)
    made.attribute.extend(kept)
    nodes, last = [made], "made"
    if len(read) > 3 and read[3]:
        nodes.append(onnx.helper.make_node("Add", [last, read[3]], ["added"], name="Add"))
        last = "added"
    nodes += _activated(activation, numbers, last)
    function = onnx.helper.make_function(
        _DOMAIN,
        node.op_type,
        formal,
        [nodes[-1].output[0]],
        nodes,
        [onnx.helper.make_opsetid("", 13)],
    )
    return ir.serde.deserialize_function(function)


def _activated(activation: str, numbers: Sequence[float], value: str) -> list[onnx.NodeProto]:
    """Return the nodes of an activation."""
    if not activation:
        return []
    if activation != "Clip":
        parameters: dict[str, Any] = dict(zip(_PARAMETERS[activation], numbers, strict=False))
        return [onnx.helper.make_node(activation, [value], ["y"], name=activation, **parameters)]
    limits = [
        onnx.helper.make_node("Constant", [], [name], name=name, value_float=number)
        for name, number in zip(("least", "most"), numbers, strict=False)
    ]
    clip = onnx.helper.make_node(
        "Clip", [value, *(n.output[0] for n in limits)], ["y"], name="Clip"
    )
    return [*limits, clip]
