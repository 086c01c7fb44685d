"""The operators on sequences, and the name of ``seqmap::Map``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["DOMAIN", "OP_TYPE", "SEQUENCE_OPERATORS", "is_map"]

DOMAIN, OP_TYPE = "seqmap", "Map"
"""The operator that stands for a map while passes work on it, see `passes.maps.operator`."""

SEQUENCE_OPERATORS = frozenset(
    {
        "ConcatFromSequence",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    }
)


def is_map(node: ir.Node) -> bool:
    """Whether a node is a Map."""
    return (node.domain, node.op_type) == (DOMAIN, OP_TYPE)
