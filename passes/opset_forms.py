"""Older forms of operators that new nodes are recorded with in their present form."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.graphs import constant_value, is_default_domain

__all__ = ["CARRIES_SEQUENCES", "to_opset_form"]

CARRIES_SEQUENCES = 13
"""The first opset in which Loop and If take and yield sequences."""

_ATTRIBUTE_UNTIL_12 = {
    "Split": "split",
    "Squeeze": "axes",
    "Unsqueeze": "axes",
    "ReduceSum": "axes",
}
"""Operators whose second input was an attribute before opset 13."""


def to_opset_form(nodes: Iterable[ir.Node], opset: int) -> None:
    """Give new nodes the form that an opset has for them.

    Args:
        nodes: Nodes with at least the form of opset 13. A second input that became an attribute
            must be a constant; a node of which it is none stays as it is.
        opset: Version of ONNX's operators.
    """
    if opset >= 13:
        return
    for node in nodes:
        name = _ATTRIBUTE_UNTIL_12.get(node.op_type)
        if name is None or not is_default_domain(node) or len(node.inputs) < 2:
            continue
        numbers = constant_value(node.inputs[1])
        if numbers is None:
            continue
        node.attributes[name] = ir.AttrInt64s(name, [int(n) for n in numbers])
        node.resize_inputs(1)
