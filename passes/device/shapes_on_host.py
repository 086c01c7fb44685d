"""Shapes of what the host holds are read there, and the tensor is not copied to the device.

A device that has a kernel for Shape, and none for what makes the tensor, is handed the whole of
it only to tell its shape: a Scan over the elements of a sequence copies each of them so. In a type
that the device has no Shape for, the host reads it. onnxruntime drops a Cast in front of a Shape,
so a Neg stands between the two.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.device.forms_pass import FormsPass
from passes.graph.builder import Builder
from passes.graph.graphs import all_graphs, is_default_domain, is_operator
from passes.graph.made import operand
from passes.typing import Typing

__all__ = ["OF_THE_HOST", "ShapesOnHostPass"]

OF_THE_HOST = ir.DataType.INT8
"""A type of small elements that devices do without."""
_KEPT = ("Neg", "Shape")


class ShapesOnHostPass(FormsPass):
    """Cast a tensor of the host of which the device would read only the shape.

    1. The device has a kernel for Shape of the tensor's type, and none for Shape and Neg of int8.
    2. It lacks the operator that makes the tensor.
    3. All nodes that read the tensor are Shapes, or of operators that it lacks, too.
    """

    only_for = (("Shape",),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite the main graph and subgraphs."""
        found = [
            node
            for graph in all_graphs(model)
            for node in graph
            if is_operator(node, "Shape") and self._is_of_the_host(operand(node, 0))
        ]
        if any(self._has_kernel(ir.Node("", op, []), OF_THE_HOST) for op in _KEPT):
            return ir.passes.PassResult(model, False)
        return ir.passes.PassResult(model, self._write_forms(model, found, self._form))

    def _is_of_the_host(self, value: ir.Value) -> bool:
        return self._is_on_host(value.producer()) and all(
            is_operator(node, "Shape") or self._is_on_host(node) for node in value.consumers()
        )

    def _is_on_host(self, node: ir.Node | None) -> bool:
        """Whether the device lacks the operator; of other domains nothing is known."""
        return node is not None and is_default_domain(node) and not self._has_kernel(node, None)

    def _form(self, node: ir.Node, typing: Typing, builder: Builder) -> list[ir.Value] | None:
        dtype = typing.dtype(operand(node, 0))
        if dtype in (None, ir.DataType.STRING) or not self._has_kernel(node, dtype):
            return None
        other = builder.op("Cast", [operand(node, 0)], {"to": OF_THE_HOST.value})
        return [builder.op("Shape", [builder.op("Neg", [other])], node.attributes)]
