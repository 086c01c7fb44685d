"""What samples that differ along several axes take as flat values, and in a Loop: time and memory.

The numbers (`flat_rates`) say which of the two a reader should want, not how long a model takes.
"""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.walk import BatchInterpreter
from passes.fusing.flat_rates import (
    AS_THEY_LIE,
    BY_NUMBER,
    FREE,
    MOVES,
    PLAIN,
    FormWork,
    is_out_of_order,
    rate_of,
    reads_by_number,
    rows_by_number,
)
from passes.site import MapSite
from passes.typing import ValueType
from passes.typing.value_types import is_number

__all__ = ["FLAT", "Estimate", "flat_note"]

FLAT = "flat: about"
"""What such a note begins with."""

COUNT, SIZES = 256, (400, 500)
"""How many images are supposed, and their height and width."""

REST = 3
"""The size that a further unknown dimension is taken to have."""

_RESHAPED = frozenset({"Flatten", "Reshape"})

STEP = 1100.0
"""Nanoseconds of one iteration of a Loop, and of reading and collecting an element."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The time and memory of a form of a map.

    Attributes:
        bytes: Memory beside the inputs, at most.
        seconds: Time.
    """

    bytes: float
    seconds: float

    def __str__(self) -> str:
        """Return both, rounded to two digits."""
        return f"{_memory(self.bytes)}, {_time(self.seconds)}"


@dataclasses.dataclass(frozen=True)
class _NodeCost:
    """The bytes and nanoseconds that a node takes for one sample, and nanoseconds in a Loop."""

    bytes: float
    time: float
    alone: float


def flat_note(site: MapSite, walk: BatchInterpreter, count: int | None) -> str | None:
    """Say what flat samples take, and the same in a Loop; None if no sample is flat.

    Args:
        site: The map.
        walk: What became of its nodes.
        count: How many samples there are, if that is known.
    """
    count = COUNT if count is None else count
    found = _flat_estimates(site, walk, count)
    if found is None:
        return None
    flat, loop = found
    return (
        f"{FLAT} {flat} at {count} samples of {_sizes(site, walk)}; "
        f"a loop: {loop} (onnxruntime, one core)"
    )


def _flat_estimates(
    site: MapSite, walk: BatchInterpreter, count: int
) -> tuple[Estimate, Estimate] | None:
    """Return what a map takes with flat samples, and in a Loop.

    Args:
        site: The map.
        walk: What became of its nodes.
        count: How many samples there are.
    """
    sizes = _SupposedSizes(site, walk)
    parts = [_of_node(walk, sizes, node, value) for node, value in _flat_nodes(site, walk)]
    moved = [value for value in site.body.outputs if is_out_of_order(walk.read(value))]
    parts += [_of_moved(sizes, walk.type_of(value)) for value in moved]
    if not parts:
        return None
    time, alone = sum(part.time for part in parts), STEP + sum(part.alone for part in parts)
    most = max(part.bytes for part in parts)
    results = [walk.type_of(value) for value in site.body.outputs]
    collected = float(sum(sizes.count(type_) * _item(type_) for type_ in results))
    return (
        Estimate(count * max(most, collected), count * time / 1e9),
        Estimate(count * collected, count * alone / 1e9),
    )


class _SupposedSizes:
    """The sizes of samples, supposed ones where they are not known.

    What is made of them by a Reshape has as many numbers: images of 400 x 500 x 3 that become
    vectors, vectors of 600,000.
    """

    def __init__(self, site: MapSite, walk: BatchInterpreter) -> None:
        self._followed: dict[object, int] = {}
        for node in site.body:
            if node.op_type in _RESHAPED and node.inputs[0] is not None:
                self._follow(walk.type_of(node.inputs[0]), walk.type_of(node.outputs[0]))

    def _follow(self, before: ValueType, after: ValueType) -> None:
        """Keep the size of the only dimension that a Reshape has made."""
        dims = after.dims or ()
        known = (*(before.dims or ()), *self._followed)
        made = [d for d in dims if not isinstance(d, int) and d not in known]
        if before.dims is None or len(made) != 1 or made[0] is None:
            return
        self._followed[made[0]] = 1
        self._followed[made[0]] = max(self.count(before) // max(self.count(after), 1), 1)

    def of(self, type_: ValueType) -> tuple[int, ...]:
        """Return the dimensions of a sample."""
        dims = (None,) * (len(SIZES) + 1) if type_.dims is None else type_.dims
        found = [d if isinstance(d, int) else self._followed.get(d) for d in dims]
        sizes = [*SIZES[-max(found.count(None), 1) :], *[REST] * len(dims)]
        return tuple(sizes.pop(0) if size is None else size for size in found)

    def count(self, type_: ValueType) -> int:
        """Return how many numbers a sample has."""
        return math.prod(self.of(type_))


def _of_node(
    walk: BatchInterpreter, sizes: _SupposedSizes, node: ir.Node, value: ir.Value
) -> _NodeCost:
    """Return what a node takes that reads a flat value."""
    before, after = walk.type_of(value), walk.type_of(node.outputs[0])
    if node.op_type in MOVES:
        after = after.filled_from(before)
    x = walk.read(value)
    work, rate = (
        _work(sizes, before, after, _in_a_row(x, sizes.of(before))),
        rate_of(node, crosses=_crosses(x, node)),
    )
    alone = rate.alone(work)
    if rate in AS_THEY_LIE and reads_by_number(walk, node):
        rows = rows_by_number(walk, node, value)
        pixels = work.read if rows is None else work.made // _in_a_row(rows, sizes.of(after))
        rate, work = BY_NUMBER, dataclasses.replace(work, pixels=pixels)
    return _NodeCost(rate.bytes(work), rate.time(work), alone)


def _crosses(x: Batched, node: ir.Node) -> bool:
    """Whether samples differ along the axis that a node names, or else the last one."""
    if x.flat is None:
        return False
    return x.flat.is_ragged(node.attributes.get_int("axis", -1) % len(x.flat.order))


def _of_moved(sizes: _SupposedSizes, type_: ValueType) -> _NodeCost:
    """Return what a result takes whose numbers are moved."""
    work = _work(sizes, type_, type_, 1)
    return _NodeCost(BY_NUMBER.bytes(work), BY_NUMBER.time(work), PLAIN.alone(work))


def _flat_nodes(site: MapSite, walk: BatchInterpreter) -> list[tuple[ir.Node, ir.Value]]:
    """Return the nodes that take time on flat samples, and the first of these that each reads."""
    found = []
    for node in site.body:
        flat = [value for value in node.inputs if value is not None and walk.read(value).is_flat]
        if node.op_type not in FREE and flat:
            found.append((node, flat[0]))
    return found


def _sizes(site: MapSite, walk: BatchInterpreter) -> str:
    """Return the height and width that are known, or else supposed, of the samples given."""
    types = [walk.type_of(value) for _, value in _flat_nodes(site, walk)]
    sizes = _SupposedSizes(site, walk)
    known = [sizes.of(type_) for type_ in types if len(type_.dims or ()) >= len(SIZES)]
    supposed = next(iter(known), SIZES)
    first, second = sorted(sorted(range(len(supposed)), key=lambda a: -supposed[a])[:2])
    return f"{supposed[first]} x {supposed[second]}"


def _in_a_row(x: Batched, sizes: tuple[int, ...]) -> int:
    """Return how many numbers of a flat value one row holds: those of the axes behind its grid."""
    if x.flat is None or len(sizes) != len(x.flat.order):
        return 1
    behind = zip(sizes, x.flat.order, strict=True)
    return max(math.prod(size for size, at in behind if at >= x.flat.grid.rank), 1)


def _work(sizes: _SupposedSizes, before: ValueType, after: ValueType, in_a_row: int) -> FormWork:
    read, made = sizes.count(before), sizes.count(after)
    shrunk = math.sqrt(max(read / max(made, 1), 1.0))
    return FormWork(read, made, made // in_a_row, 2 * math.ceil(shrunk) + 1, _item(after))


def _item(type_: ValueType) -> int:
    dtype = None if type_.type is None else type_.type.dtype
    return max(dtype.bitwidth // 8, 1) if is_number(dtype) else 4


def _memory(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return (
                f"{number / size:.2g} {unit}"
                if number < 10 * size
                else f"{number / size:.0f} {unit}"
            )
    return "less than 1 MB"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{_short(seconds)} s"
    return f"{max(seconds * 1000, 1):.0f} ms"


def _short(number: float) -> str:
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"
