"""Writes a fused body that pads samples, with a loop for those that would waste too much."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.graph.builder import Builder, needed_nodes
from passes.loops.write_if import Branch, write_if
from passes.typing import Typings

__all__ = ["write_bounded"]


def write_bounded(
    builder: Builder,
    fused: FusedBody,
    typings: Typings,
    write_loop: Branch,
    *,
    asks_sizes: bool,
) -> Sequence[ir.Value]:
    """Record a fused body behind an If on what its padding takes, if anything bounds that.

    The lengths that the condition asks for are computed in front of the If.

    Args:
        builder: Writes the graph.
        fused: The body.
        typings: Both typings of the model.
        write_loop: Writes the map as a loop.
        asks_sizes: Whether what follows from sizes alone is asked first, before lengths are
            computed.

    Returns:
        The value of each result.
    """
    limits, early = fused.walk.limits, fused.walk.early if asks_sizes else ()
    if not limits:
        return fused.write(builder, typings)
    inside = Builder(builder.origin, builder.opset)
    values = fused.write(inside, typings)
    conditions = [_all_of(inside, flags) for flags in (early, limits) if flags]

    def write_from(branch: Builder, step: int) -> Sequence[ir.Value]:
        known = needed_nodes(inside.nodes, conditions[:step])
        if step == len(conditions):
            branch.nodes.extend(node for node in inside.nodes if node not in known)
            return values
        asked = needed_nodes(inside.nodes, [conditions[step]]) - known
        branch.nodes.extend(node for node in inside.nodes if node in asked)
        return write_if(
            branch,
            fused.site,
            typings,
            conditions[step],
            lambda inner: write_from(inner, step + 1),
            write_loop,
        )

    return write_from(builder, 0)


def _all_of(builder: Builder, flags: Iterable[ir.Value]) -> ir.Value:
    return functools.reduce(lambda a, b: builder.op("And", [a, b]), flags)
