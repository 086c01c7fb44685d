"""Writes integers of a body that are known before the model runs as constants.

Exporters compute ``Concat([-1], Shape(x)[1:])`` where a type tells ``[-1, 3]``. In the body of a
Loop such numbers become constants when it is read as a map; here they do in that of a SequenceMap.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.folding import Folder
from passes.graph.graphs import is_default_domain, subgraphs
from passes.graph.splice import remove_dead
from passes.reading.nodes import become_constant, constant_of

__all__ = ["SIZES", "fold_numbers"]

SIZES = ("Shape", "Size")
"""Operators that ask for what a type may tell."""


def fold_numbers(node: ir.Node, folder: Folder) -> bool:
    """Make Constants of the nodes in the bodies of a map whose integers are known.

    Args:
        node: The map; what stands in graphs inside of its body is left alone.
        folder: Knows the numbers.

    Returns:
        Whether there are any.
    """
    inside = [inner for _, body in subgraphs(node) for inner in body]
    known = [(one, array) for one in inside if (array := _known(one, folder)) is not None]
    for one, array in known:
        read = [value.producer() for value in one.inputs if value is not None]
        become_constant(one, array)
        remove_dead(maker for maker in read if maker in inside)
    return bool(known)


def _known(node: ir.Node, folder: Folder) -> np.ndarray | None:
    """Return the integers that a node computes in every sample, None if they are not known."""
    is_read = is_default_domain(node) and bool(node.inputs) and len(node.outputs) == 1
    if not is_read or any(True for _ in subgraphs(node)):
        return None
    return constant_of(node, folder)
