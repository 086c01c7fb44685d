"""How much of a model is worked on: beyond, an error says so, or less is known of it.

A model may come from a stranger. No number in it decides by itself how long a rewrite takes.
"""

from __future__ import annotations

LONGEST_VECTOR = 2**20
"""Numbers of a vector whose values ONNX may track: its inference takes memory for each."""

LARGEST_TRACKED_DIM = 2**24
"""A dimension beyond which no values are tracked, since a vector may get its length."""

MOST_NODES = 200_000
"""Nodes of a model once each call of a function has become the function's body."""

MOST_FUNCTIONS = 1_000
"""Functions that a model brings along."""

DEEPEST_TEXT = 500
"""Brackets inside of each other in ONNX text, whose parser ends the process on some thousands."""

DEEPEST_NESTING = 12
"""Graphs inside of graphs; each level is typed and planned once more for those around it."""

MOST_GUARDED = 1_000
"""Nodes behind guards in the body of a map, beyond which the body is written once: each branch of
a guard around it would hold them again."""
