"""What the device of a target computes, for the passes that write for it."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from passes.device_forms import HasKernel
from passes.graphs import default_opset
from rewriter.placement.kernel_table import load_table

__all__ = ["kernels_of"]


def kernels_of(name: str, model: ir.Model) -> HasKernel:
    """Return what tells whether a device computes a node with a type.

    A type counts only if the device casts to and from it: values are cast in front of a node
    and behind it.

    Args:
        name: The table of the device.
        model: The model, whose opset is asked for whenever a node is.
    """
    table = load_table(name)
    casts = ir.Node("", "Cast", [])

    def has_kernel(node: ir.Node, dtype: ir.DataType | None) -> bool:
        opset = default_opset(model)

        def takes(one: ir.Node) -> bool:
            version = onnx.defs.get_schema(one.op_type, opset).since_version
            return table.takes(one, version, dtype)

        return takes(node) and (dtype is None or takes(casts))

    return has_kernel
