"""Loops in branches, which onnxruntime cannot load once it has put a branch in an If's place."""

from __future__ import annotations

import onnx_ir as ir

from passes.builder import Builder
from passes.runtimes.types import Types

__all__ = ["lacks_condition", "with_condition"]


def lacks_condition(node: ir.Node, types: Types) -> bool:
    """Whether a Loop in a branch begins without a condition, and hands on what it is given."""
    if node.inputs[1] is not None:
        return False
    body = node.attributes["body"].as_graph()
    condition = body.outputs[0]
    while (producer := condition.producer()) is not None and producer.op_type == "Identity":
        source = producer.inputs[0]
        if source is None:
            return False
        condition = source
    return condition is body.inputs[1] and types.is_in_branch(node)


def with_condition(node: ir.Node, types: Types, builder: Builder) -> list[ir.Value] | None:
    """The same Loop with a condition that is true, and stays so."""
    node.replace_input_with(1, builder.flag(True))
    return list(node.outputs)
