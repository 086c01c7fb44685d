"""Quantized weights of a product, which onnxruntime makes one operator with dequantizing them."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder, unnamed
from passes.graph.graphs import is_operator, makers
from passes.graph.made import operand, operands, skip_identities
from passes.runtimes.beside import TAKEN_AWAY
from passes.runtimes.defects.quantized import kept
from passes.runtimes.types import Types

__all__ = [
    "by_kept_weights",
    "is_by_dequantized_weights",
    "is_dequantized_from_outside",
    "weights_of",
    "with_its_own_weights",
]

_PRODUCTS = ("Gemm", "MatMul")
_LARGEST = 2**20
"""The most bytes of weights that are copied."""


def is_dequantized_from_outside(node: ir.Node, types: Types) -> bool:
    """Whether a product reads what is dequantized of constants of another graph.

    onnxruntime makes one operator of both, finds the constants in the graphs around, too, and
    then asks for them in the graph of the product.
    """
    outside = any(_stands_outside(value, node) for value in _constants(node))
    return outside and _is_multiplied(node)


def _constants(node: ir.Node) -> list[ir.Value]:
    """Return the numbers and the scale of a DequantizeLinear, as they are made."""
    return [skip_identities(value) for value in operands(node)[:2]]


def _stands_outside(value: ir.Value, node: ir.Node) -> bool:
    return _is_constant(value) and value.graph is not node.graph


def _is_constant(value: ir.Value) -> bool:
    maker = value.producer()
    return value.is_initializer() if maker is None else is_operator(maker, "Constant")


def _is_multiplied(node: ir.Node) -> bool:
    """Whether a product reads a result, or what may be the same once more."""
    readers = [use.node for value in node.outputs for use in value.uses()]
    return any(
        is_operator(reader, _PRODUCTS)
        or (is_operator(reader, TAKEN_AWAY) and _is_multiplied(reader))
        for reader in readers
    )


def with_its_own_weights(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same of copies in the graph of the node; of many weights it is kept from the product."""
    numbers, scale = _constants(node)
    copies: list[ir.Value] = []
    for tensor in map(weights_of, (numbers, scale)):
        if tensor is None:
            return kept(node, types, builder)
        copies.append(builder.op("Constant", [], {"value": unnamed(tensor)}))
    return [builder.op(node.op_type, [*copies, *node.inputs[2:]], node.attributes)]


def is_by_dequantized_weights(node: ir.Node, types: Types) -> bool:
    """Whether a product has come to the author's DequantizeLinear of constant weights.

    The operator that onnxruntime makes of both rounds the other operand to 8 bits. Where both
    were moved, it has done so in the model as given.
    """
    return any(
        is_operator(maker, "DequantizeLinear")
        and maker.graph is node.graph
        and not types.is_moved(maker)
        and all(map(_is_constant, _constants(maker)))
        for maker in makers(operand(node, 1), TAKEN_AWAY)
    )


def by_kept_weights(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same product; the weights are kept from it."""
    weights = builder.op("Max", [operand(node, 1)])
    inputs = [*node.inputs[:1], weights, *node.inputs[2:]]
    return [builder.op(node.op_type, inputs, node.attributes)]


def weights_of(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the weights that a value stands for, if they are few enough to be copied."""
    node = value.producer()
    if value.is_initializer() and not value.is_graph_input():
        tensor = value.const_value
    elif node is not None and node.op_type == "Constant" and "value" in node.attributes:
        tensor = node.attributes["value"].as_tensor()
    else:
        return None
    if tensor is None or isinstance(tensor, ir.ExternalTensor) or tensor.nbytes > _LARGEST:
        return None
    return tensor
