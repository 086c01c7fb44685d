"""What onnxruntime's fused operators stand for: an operator of ONNX, and an activation.

onnxruntime's optimizer writes them when it saves a model. Other runtimes know none of them, and
onnxruntime fuses the two again when it loads the new model. Source: onnxruntime's documentation
of its contributed operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
import onnx_ir as ir

__all__ = ["fused_function"]

_DOMAIN = "com.microsoft"
_ATTRIBUTES = {
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "Gemm": ("alpha", "beta", "transA", "transB"),
}
_NUMBERS = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""The numbers of each activation; onnxruntime has no defaults for them."""
_CLIP_READS = 11
"""The first opset in which the bounds of Clip are inputs."""


def fused_function(node: ir.Node, opset: int) -> ir.Function | None:
    """Return the function that a FusedConv or FusedGemm stands for, None for another node.

    None, too, where the activation is unknown or lacks a number: onnxruntime refuses that.

    Args:
        node: The node.
        opset: The version of ONNX's operators in the model.
    """
    op_type = node.op_type.removeprefix("Fused")
    if node.domain != _DOMAIN or op_type == node.op_type or op_type not in _ATTRIBUTES:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    activation = node.attributes.get_string("activation", "") or ""
    numbers = _numbers(node, activation) if activation else {}
    if numbers is None or (activation == "Clip" and opset < _CLIP_READS):
        return None
    formal = [f"i{k}" for k in range(len(node.inputs))]
    read = [name if v is not None else "" for name, v in zip(formal, node.inputs, strict=True)]
    made = onnx.helper.make_node(op_type, read[:3], ["made"], name=op_type)
    kept = (a for name, a in node.attributes.items() if name in _ATTRIBUTES[op_type])
    made.attribute.extend(map(ir.serde.serialize_attribute, kept))
    nodes = [made]
    if any(read[3:]):
        nodes.append(onnx.helper.make_node("Add", ["made", read[3]], ["added"], name="Add"))
    nodes += _activated(activation, numbers, nodes[-1].output[0])
    imported = onnx.helper.make_opsetid("", opset)
    function = onnx.helper.make_function(
        _DOMAIN, node.op_type, formal, nodes[-1].output, nodes, [imported]
    )
    return ir.serde.deserialize_function(function)


def _numbers(node: ir.Node, activation: str) -> dict[str, float] | None:
    """Return the numbers of an activation by name, None if one is missing."""
    names = _NUMBERS.get(activation)
    if names is None:
        return None
    if node.op_type == "FusedConv":
        listed = node.attributes.get("activation_params")
        given = [] if listed is None else list(listed.as_floats())
        return dict(zip(names, given, strict=True)) if len(given) == len(names) else None
    found = {name: node.attributes.get(f"activation_{name}") for name in names}
    return {n: a.as_float() for n, a in found.items() if a} if all(found.values()) else None


def _activated(
    activation: str, numbers: Mapping[str, float], value: str
) -> Iterable[onnx.NodeProto]:
    """Return the nodes of an activation; the numbers of Clip are inputs."""
    if not activation:
        return []
    if activation != "Clip":
        made = onnx.helper.make_node(activation, [value], ["y"], name=activation)
        made.attribute.extend(onnx.helper.make_attribute(*pair) for pair in numbers.items())
        return [made]
    limits = [
        onnx.helper.make_node("Constant", [], [name], name=name, value_float=number)
        for name, number in numbers.items()
    ]
    clip = onnx.helper.make_node("Clip", [value, *numbers], ["y"], name="Clip")
    return [*limits, clip]
