"""Lengths that the caller of a model passes beside a tensor, and the node that checks them.

They add up to the rows of the tensor, whichever branch reads them: wrong ones may be an error
wherever the check stands.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.made import operand

__all__ = ["checks_passed_lengths", "mark_as_check", "mark_as_lengths"]

_LENGTHS_OF, _CHECKED_FOR = "lengths of", "checked for"


def mark_as_lengths(lengths: ir.Value, tensor: ir.Value) -> None:
    """Note that an input of the model holds the lengths of the samples of another one."""
    lengths.meta[_LENGTHS_OF] = tensor


def mark_as_check(checked: ir.Value, tensor: ir.Value) -> None:
    """Note that a node fails only where lengths do not add up to the rows of a tensor."""
    node = checked.producer()
    assert node is not None
    node.meta[_CHECKED_FOR] = tensor


def checks_passed_lengths(node: ir.Node) -> bool:
    """Whether a node checks lengths that the caller of the model passes."""
    tensor = node.meta.get(_CHECKED_FOR)
    if tensor is None:
        return False
    lengths = operand(node, 0)
    while (made := lengths.producer()) is not None and made.op_type in ("Cast", "Identity"):
        lengths = operand(made, 0)
    return lengths.meta.get(_LENGTHS_OF) is tensor
