"""What samples that differ along several axes take as flat values, and in a Loop: time and memory.

The numbers were measured under onnxruntime on one core (``python -m benchmarks.images`` measures
them). They say which of the two a reader should want, not how long a model takes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import onnx_ir as ir

from passes.batching.layouts import Batched
from passes.batching.walk import Walk
from passes.site import MapSite
from passes.typing import ValueType
from passes.typing.value_types import is_number

__all__ = ["FLAT", "Estimate", "flat_estimates", "flat_note"]

FLAT = "flat: about"
"""What such a note begins with."""

COUNT, SIZES = 256, (400, 500)
"""How many images are supposed, and their height and width."""

REST = 3
"""The size that a further unknown dimension is taken to have."""

INDEX = 40
"""Bytes of the places that one row is read from, and of one sum of them."""

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
class _FormWork:
    """The size of one node's work for one sample.

    Attributes:
        read: Numbers of the sample that it reads.
        made: Numbers of its result.
        pixels: Rows of its result.
        taps: How many places one of an antialiased result sums along an axis.
        item: Bytes of a number.
    """

    read: int
    made: int
    pixels: int
    taps: int
    item: int


@dataclasses.dataclass(frozen=True)
class _Rate:
    """Nanoseconds and bytes of a kind of node, flat, and nanoseconds of it in a Loop."""

    time: Callable[[_FormWork], float]
    bytes: Callable[[_FormWork], float]
    alone: Callable[[_FormWork], float]


_MOVED = _Rate(
    lambda w: 14.0 * w.pixels,
    lambda w: float(INDEX * w.pixels + w.item * w.made),
    lambda w: 0.6 * w.made,
)
_NEAREST = _Rate(lambda w: 10.0 * w.pixels, lambda w: 17.0 * w.pixels, lambda w: 2.7 * w.made)
_LINEAR = _Rate(lambda w: 50.0 * w.made, lambda w: 86.0 * w.made, lambda w: 12.0 * w.made)
_ANTIALIASED = _Rate(
    lambda w: 5.0 * w.taps * math.sqrt(w.read * w.made),
    lambda w: 9.0 * w.taps * math.sqrt(w.read * w.made) + w.item * w.read,
    lambda w: 5.0 * w.read,
)
_REDUCED = _Rate(lambda w: 15.0 * w.read, lambda w: 40.0 * w.read, lambda w: 2.0 * w.read)
_WINDOWED = _Rate(lambda w: 40.0 * w.read, lambda w: 90.0 * w.read, lambda w: 1.5 * w.read)
_PLAIN = _Rate(lambda w: 0.5 * w.made, lambda w: float(w.item * w.made), lambda w: 0.5 * w.made)
_MOVES = frozenset({"CenterCropPad", "Pad", "Slice"})
_WINDOWS = frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"})
_FREE = frozenset({"Constant", "Identity", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"})


def flat_note(site: MapSite, walk: Walk, count: int | None = None) -> str | None:
    """Say what flat samples take, and the same in a Loop; None if no sample is flat.

    Args:
        site: The map.
        walk: What became of its nodes.
        count: How many samples there are, if that is known.
    """
    count = COUNT if count is None else count
    found = flat_estimates(site, walk, count)
    if found is None:
        return None
    flat, loop = found
    return (
        f"{FLAT} {flat} at {count} samples of {_sizes(site, walk)}; "
        f"a loop: {loop} (onnxruntime, one core)"
    )


def flat_estimates(
    site: MapSite, walk: Walk, count: int = COUNT
) -> tuple[Estimate, Estimate] | None:
    """Return what a map takes with flat samples, and in a Loop.

    Args:
        site: The map.
        walk: What became of its nodes.
        count: How many samples there are.
    """
    time, alone, most = 0.0, STEP, 0.0
    nodes = _flat_nodes(site, walk)
    for node, value in nodes:
        read, after = walk.read(value), walk.type_of(node.outputs[0])
        before = walk.type_of(value)
        before = read.type if before.dims is None else before
        if node.op_type in _MOVES:
            after = after.filled_from(before)
        rate, work = _rate(node), _work(before, after, _in_a_row(read, before))
        time, alone = time + rate.time(work), alone + rate.alone(work)
        most = max(most, rate.bytes(work))
    if not nodes:
        return None
    results = [walk.type_of(value) for value in site.body.outputs]
    collected = float(sum(_count(type_) * _item(type_) for type_ in results))
    return (
        Estimate(count * max(most, collected), count * time / 1e9),
        Estimate(count * collected, count * alone / 1e9),
    )


def _flat_nodes(site: MapSite, walk: Walk) -> list[tuple[ir.Node, ir.Value]]:
    """Return the nodes that take time on flat samples, and the first of these that each reads."""
    found = []
    for node in site.body:
        flat = [value for value in node.inputs if value is not None and walk.read(value).is_flat]
        if node.op_type not in _FREE and flat:
            found.append((node, flat[0]))
    return found


def _sizes(site: MapSite, walk: Walk) -> str:
    """Return the height and width that are known, or else supposed, of the samples given."""
    types = [walk.type_of(value) for _, value in _flat_nodes(site, walk)]
    known = [_supposed(type_) for type_ in types if len(type_.dims or ()) >= len(SIZES)]
    supposed = next(iter(known), SIZES)
    first, second = sorted(sorted(range(len(supposed)), key=lambda a: -supposed[a])[:2])
    return f"{supposed[first]} x {supposed[second]}"


def _rate(node: ir.Node) -> _Rate:
    if node.op_type in _MOVES:
        return _MOVED
    if node.op_type in _WINDOWS:
        return _WINDOWED
    if node.op_type.startswith(("Reduce", "Global")):
        return _REDUCED
    if node.op_type != "Resize":
        return _PLAIN
    if node.attributes.get_int("antialias", 0):
        return _ANTIALIASED
    return _NEAREST if node.attributes.get_string("mode", "nearest") == "nearest" else _LINEAR


def _in_a_row(x: Batched, type_: ValueType) -> int:
    """Return how many numbers of a flat value one row holds: those of the axes behind its grid."""
    assert x.flat is not None
    behind = zip(_supposed(type_), x.flat.order, strict=True)
    return max(math.prod(size for size, at in behind if at >= x.flat.grid.rank), 1)


def _work(before: ValueType, after: ValueType, in_a_row: int) -> _FormWork:
    read, made = _count(before), _count(after)
    shrunk = math.sqrt(max(read / max(made, 1), 1.0))
    return _FormWork(read, made, made // in_a_row, 2 * math.ceil(shrunk) + 1, _item(after))


def _count(type_: ValueType) -> int:
    """Return how many numbers a sample has, of the supposed size where it is not known."""
    return math.prod(_supposed(type_))


def _supposed(type_: ValueType) -> tuple[int, ...]:
    """Return the dimensions of a sample, supposed ones where they are not known."""
    dims = (None,) * (len(SIZES) + 1) if type_.dims is None else type_.dims
    sizes = [*SIZES[-max(sum(not isinstance(d, int) for d in dims), 1) :], *[REST] * len(dims)]
    return tuple(d if isinstance(d, int) else sizes.pop(0) for d in dims)


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
