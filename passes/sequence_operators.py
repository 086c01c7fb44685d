"""The operators on sequences."""

from __future__ import annotations

__all__ = ["SEQUENCE_OPERATORS"]

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
