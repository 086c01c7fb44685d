"""Bounds what the iterations of a Loop hold that each see a tensor of their own.

An iteration that reads all that was written so far sees as much as the tensor holds; all of them
at once hold that many times. ``s`` of 64 rows of 16 numbers takes 65,536 numbers in 64 iterations.
"""

from __future__ import annotations

import functools
import math

import onnx_ir as ir

from passes.batching.walk import Walk
from passes.decisions import Code
from passes.fusing.fusion_facts import FusionFacts
from passes.graph.builder import Builder
from passes.promises import FuseOptions
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried
from passes.site import MapSite
from passes.typing.value_types import Typing

__all__ = ["check_wholes", "limit_wholes"]

_FASTER, _MOST = 1 << 16, 1 << 24
"""So many numbers iterations may hold where a loop is faster from there on, and in any case."""

_FUSE = "--strategy fuse takes it apart"

_HELD = (
    "each iteration holds what it sees of the tensors that it writes to; where that is more than "
    "{:,} numbers in all, they run in one loop"
)
_HELD_ANYWAY = (
    "each iteration holds what it sees of the tensors that it writes to, and nothing asks what "
    "that takes: the number of iterations x the size of these tensors"
)


def check_wholes(read: LoopReading, site: MapSite, typing: Typing, options: FuseOptions) -> None:
    """Check that the iterations of a Loop do not hold too much, as far as sizes are known.

    Args:
        read: The Loop as it was read.
        site: The map; the tensors that it sees parts of are its shared values.
        typing: The proven typing.
        options: What is asked of the rewrite.

    Raises:
        NotAMapError: They hold too much, or a loop is about as fast.
    """
    if not read.seen or _has_no_loop(options):
        return
    growing = [seen.pattern.carried for seen in read.seen if seen.grows]
    if growing and _prefers_loop(options):
        names = ", ".join(repr(name_of_carried(carried)) for carried in growing)
        detail = f"it reads {names}, which grows, and a loop is about as fast"
        raise NotAMapError(Code.READS_EARLIER, detail, site.node, _FUSE)
    sizes = [typing.static_dims(tensor) for _, tensor in site.shared]
    held = (read.trips.static or 0) * sum(math.prod(dims) for dims in sizes if dims is not None)
    if held > _most(options):
        names = ", ".join(repr(name_of_carried(seen.pattern.carried)) for seen in read.seen)
        detail = f"what all iterations see of {names} takes {held:,} numbers"
        advice = _FUSE if held <= _MOST else ""
        raise NotAMapError(Code.READS_EARLIER, detail, site.node, advice)


def limit_wholes(
    site: MapSite, walk: Walk, builder: Builder, batch: ir.Value, facts: FusionFacts
) -> None:
    """Let a loop run where the iterations of a Loop would hold too much.

    Args:
        site: A map of a Loop whose iterations see tensors of their own.
        walk: The walk over its body; it gains the limit.
        builder: Writes what the fused body begins with.
        batch: The number of iterations, int64 ``[1]``.
        facts: What holds for all maps.
    """
    tensors = [tensor for _, tensor in site.shared]
    if not tensors:  # it writes them
        return
    if _has_no_loop(facts.options):
        walk.padded[_HELD_ANYWAY] = None
        return
    typing = facts.typings.proven
    count = site.elements[0][1].number(typing)
    if count is not None and all(typing.static_dims(tensor) is not None for tensor in tensors):
        return  # which was checked
    sizes = [builder.op("Size", [tensor]) for tensor in tensors]
    whole = functools.reduce(lambda a, b: builder.op("Add", [a, b]), sizes)
    held = builder.op("Mul", [builder.op("Squeeze", [batch, builder.ints(0)]), whole])
    most = _most(facts.options)
    flag = builder.op("LessOrEqual", [held, builder.scalar(most)])
    walk.limits[flag] = _HELD.format(most)


def _prefers_loop(options: FuseOptions) -> bool:
    return options.auto and not options.for_device


def _has_no_loop(options: FuseOptions) -> bool:
    return "Loop" in options.lacks or "If" in options.lacks


def _most(options: FuseOptions) -> int:
    return _FASTER if _prefers_loop(options) else _MOST
