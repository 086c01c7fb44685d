"""The length of what a SequenceMap yields, read off what it goes through."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import all_nodes, is_operator
from passes.graph.made import made_by, operand

__all__ = ["read_lengths_before_maps"]


def read_lengths_before_maps(model: ir.Model) -> bool:
    """Let each SequenceLength of what maps yield read the first sequence that these go through.

    Where only the length of its result is read, a map need not run.

    Returns:
        Whether the model was changed.
    """
    changed = False
    for node in list(all_nodes(model)):
        if not is_operator(node, "SequenceLength"):
            continue
        while (mapped := made_by(operand(node, 0), "SequenceMap")) is not None:
            node.replace_input_with(0, operand(mapped, 0))
            changed = True
    return changed
