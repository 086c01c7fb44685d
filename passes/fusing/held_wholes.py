"""Bounds what the iterations of a Loop hold that each see a tensor of their own.

An iteration that reads all that was written so far sees as much as the tensor holds; all of them
at once hold that many times. ``s`` of 64 rows of 16 numbers takes 65,536 numbers in 64 iterations.
"""

from __future__ import annotations

import functools
import math

import onnx_ir as ir

from passes.batching.held import MOST_HELD, WHOLE, has_no_loop, prefers_loop
from passes.batching.walk import BatchInterpreter
from passes.decisions import Code
from passes.fusing.fusion_facts import FusionFacts
from passes.graph.builder import Builder, needed_nodes
from passes.promises import FuseOptions
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.reading.why_written import name_of_carried
from passes.site import MapSite
from passes.typing.value_types import Typing

__all__ = ["check_wholes", "limit_copies", "limit_wholes"]

_FUSE = "--strategy fuse takes it apart"

_HELD = (
    "each iteration holds what it sees of the tensors that it writes to; where that takes much, "
    "they run in one loop"
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
    if not read.seen or has_no_loop(options):
        return
    growing = [seen.pattern.carried for seen in read.seen if seen.grows]
    if growing and prefers_loop(options):
        names = ", ".join(repr(name_of_carried(carried)) for carried in growing)
        detail = f"it reads {names}, which grows, and a loop is about as fast"
        raise NotAMapError(Code.READS_EARLIER, detail, site.node, _FUSE)
    sizes, count = (
        [typing.static_dims(tensor) for _, tensor in site.shared],
        read.trips.static or 0,
    )
    held = count * sum(math.prod(dims) for dims in sizes if dims is not None)
    if held and not WHOLE.allows(held, count * count, count, options):
        names = ", ".join(repr(name_of_carried(seen.pattern.carried)) for seen in read.seen)
        detail = f"what all iterations see of {names} takes {held:,} numbers"
        advice = _FUSE if held <= MOST_HELD else ""
        raise NotAMapError(Code.READS_EARLIER, detail, site.node, advice)


def limit_wholes(
    site: MapSite, walk: BatchInterpreter, builder: Builder, batch: ir.Value, facts: FusionFacts
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
    if has_no_loop(facts.options):
        walk.padded[_HELD_ANYWAY] = None
        return
    typing = facts.typings.proven
    count = site.elements[0][1].number(typing)
    if count is not None and all(typing.static_dims(tensor) is not None for tensor in tensors):
        return  # which was checked
    sizes = [builder.op("Size", [tensor]) for tensor in tensors]
    whole = functools.reduce(lambda a, b: builder.op("Add", [a, b]), sizes)
    held = builder.op("Mul", [batch, builder.op("Unsqueeze", [whole, builder.ints(0)])])
    rows = builder.op("Mul", [batch, batch])
    walk.limits[WHOLE.write(builder, held, rows, batch, facts.options)] = _HELD


def limit_copies(site: MapSite, walk: BatchInterpreter) -> None:
    """Let a loop run where samples would hold too much of parts of a tensor that overlap.

    Args:
        site: The map.
        walk: The walk over its body; it gains the limits.
    """
    nodes = [node for stage in walk.stages for node in stage.nodes]
    outputs = [walk.read(site.body.outputs[result.output]) for result in site.results]
    read = needed_nodes(nodes, [x.value for x in outputs])
    for parts, (flag, note) in walk.copies.items():
        if parts.producer() not in read and not any(walk.loops):
            continue
        if flag is None:
            walk.padded[note] = None
        else:
            walk.limits[flag] = note
