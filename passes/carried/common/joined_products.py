"""Products that Gemm joins to something: ``Gemm(a, b, c)`` is a multiple of ``c``, and ``a b``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.carried.pattern import added, added_constant

__all__ = ["leaves_out_addend", "product_alone", "scale_of_addend"]


def leaves_out_addend(node: ir.Node) -> bool:
    """Whether a Gemm joins nothing to its product, though it is given something: 0 times that."""
    return node.attributes.get_float("beta", 1.0) == 0


def product_alone(node: ir.Node) -> ir.Node:
    """Make the Gemm that joins its product to nothing."""
    kept = {name: value for name, value in node.attributes.items() if name != "beta"}
    return added("Gemm", [value for value in node.inputs[:2] if value is not None], kept)


def scale_of_addend(node: ir.Node, dtype: ir.DataType) -> ir.Node | None:
    """Make the number that a Gemm multiplies with what it joins; None for 1."""
    scale = node.attributes.get_float("beta", 1.0)
    return None if scale == 1 else added_constant(np.array(scale, dtype.numpy()))
