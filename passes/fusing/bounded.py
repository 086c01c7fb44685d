"""Writes a fused body that pads samples, with a loop for those that would waste too much."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.graph.builder import Builder, needed_nodes
from passes.loops.write_if import Branch, write_if
from passes.typing import Typings

__all__ = ["write_bounded"]


def write_bounded(
    builder: Builder, fused: FusedBody, typings: Typings, write_loop: Branch
) -> Sequence[ir.Value]:
    """Record a fused body behind an If on what its padding takes, if anything bounds that.

    The lengths that the condition asks for are computed in front of the If.

    Args:
        builder: Writes the graph.
        fused: The body.
        typings: Both typings of the model.
        write_loop: Writes the map as a loop.

    Returns:
        The value of each result.
    """
    flags = fused.walk.limits
    if not flags:
        return fused.write(builder, typings)
    inside = Builder(builder.origin, builder.opset)
    values = fused.write(inside, typings)
    holds = functools.reduce(lambda a, b: inside.op("And", [a, b]), flags)
    asked = needed_nodes(inside.nodes, [holds])
    builder.nodes.extend(node for node in inside.nodes if node in asked)

    def write_rest(branch: Builder) -> Sequence[ir.Value]:
        branch.nodes.extend(node for node in inside.nodes if node not in asked)
        return values

    return write_if(builder, fused.site, typings, holds, write_rest, write_loop)
