"""Slices that take all of a tensor, as PyTorch's exporter writes ``x[:, 2:]`` axis by axis."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from passes.graph.graphs import constant_value, is_operator

__all__ = ["END", "constant_entries", "cutting_bounds", "takes_all"]

END = 2**31 - 1
"""Exporters end a Slice that goes to the end here, or farther."""
_AROUND = ("Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that only give one number other axes."""


def takes_all(node: ir.Node) -> bool:
    """Whether a node is a Slice from 0 to behind any end in steps of 1, by constants."""
    if not is_operator(node, "Slice") or len(node.inputs) < 3:
        return False
    starts, ends = constant_entries(node.inputs[1]), constant_entries(node.inputs[2])
    if starts is None or ends is None or starts.any() or not (ends >= END).all():
        return False
    given = [*node.inputs, None, None][4]
    steps = np.ones(1) if given is None else constant_entries(given)
    return steps is not None and bool((steps == 1).all())


def cutting_bounds(node: ir.Node) -> list[np.ndarray] | None:
    """Return starts, ends, axes and steps of a Slice without the axes that it leaves whole.

    Returns:
        Four arrays; None if no axis is left whole, or not all of them are constants.
    """
    if not is_operator(node, "Slice") or len(node.inputs) < 3:
        return None
    starts, ends = constant_entries(node.inputs[1]), constant_entries(node.inputs[2])
    if starts is None or ends is None or starts.shape != ends.shape:
        return None
    defaults = (np.arange(starts.size, dtype=starts.dtype), np.ones_like(starts))
    bounds = [starts, ends]
    for value, default in zip([*node.inputs[3:5], None, None], defaults, strict=False):
        given = default if value is None else constant_entries(value)
        if given is None or given.shape != starts.shape:
            return None
        bounds.append(given)
    cuts = (starts != 0) | (ends < END) | (bounds[3] != 1)
    return None if cuts.all() else [one[cuts] for one in bounds]


def constant_entries(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant, or one number that only gains or loses axes."""
    found, node = constant_value(value), None if value is None else value.producer()
    if found is not None or not is_operator(node, _AROUND):
        return found
    inner = constant_entries(node.inputs[0])
    return inner if inner is not None and inner.size == 1 else None
