"""Sizes that a Where chooses one by one; some are known.

PyTorch's exporter writes ``expand(n, -1)`` as a shape with 1 in the place of each size that is -1:
``Where(Equal(s, -1), 1, s)`` of ``s = [n, -1]`` is ``[?, 1]``, and not two unknown sizes.
"""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.reading.evaluate import Evaluator, Numbers
from passes.reading.integers import Linear, is_nonnegative

__all__ = ["chosen_one_by_one"]


def chosen_one_by_one(
    evaluator: Evaluator, node: ir.Node, found: Numbers | None
) -> Numbers | None:
    """Return what a Where chooses, entry by entry, where it is known.

    Args:
        evaluator: Knows the numbers.
        node: The Where.
        found: What is known of its result otherwise.
    """
    made = None if node.inputs[0] is None else node.inputs[0].producer()
    if found is None or not is_operator(made, "Equal"):
        return found
    pairs = [evaluator.of(v) for v in (*made.inputs, *node.inputs[1:])]
    wide = [n * len(found) if n is not None and len(n) == 1 else n for n in pairs]
    known = [n for n in wide if n is not None and len(n) == len(found)]
    if len(known) < len(wide):
        return found
    return tuple(
        unknown if (same := _is_same(a, b)) is None else one if same else other
        for a, b, one, other, unknown in zip(*known, found, strict=True)
    )


def _is_same(one: Linear, other: Linear) -> bool | None:
    """Whether two numbers are equal, None if it is not known."""
    gap = (one - other).number
    if gap is not None:
        return gap == 0
    apart = is_nonnegative(one - other - 1) or is_nonnegative(other - one - 1)
    return False if apart else None
