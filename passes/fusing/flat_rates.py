"""Time and memory of a node on flat samples and in a Loop, by the numbers that it reads and makes.

The numbers were measured under onnxruntime on one core (``python -m benchmarks.images``). What
reads samples by the number of each row takes more than all else: a mask ``[H, W]`` that meets
images ``[3, H, W]`` is read for each of their numbers, and images ``[H, W, 3]`` that end as
``[3, H, W]`` are moved number by number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import onnx_ir as ir

from passes.batching.flat.samples import FlatSamples
from passes.batching.layouts import Batched
from passes.batching.walk import BatchInterpreter

__all__ = [
    "AS_THEY_LIE",
    "BY_NUMBER",
    "FREE",
    "MOVES",
    "PLAIN",
    "FormWork",
    "Rate",
    "is_out_of_order",
    "rate_of",
    "reads_by_number",
    "rows_by_number",
]

MOVES = frozenset({"CenterCropPad", "Pad", "Slice"})
"""What only says which places are read."""

FREE = frozenset({"Constant", "Identity", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"})
"""What reads no row."""

_COMPOSED = MOVES | {"Gather", "Resize", "Split"}
_REGRIDDED = frozenset({"Flatten", "Reshape"})


def reads_by_number(walk: BatchInterpreter, node: ir.Node) -> bool:
    """Whether the rows of a node's result are read one by one, by tables as long as the rows.

    Args:
        walk: What became of the nodes of a body.
        node: One of them.
    """
    made = walk.read(node.outputs[0]).flat
    if made is None:
        return False
    if node.op_type in _COMPOSED and not made.is_plain:
        return not made.has_one_shape and _is_read(node.outputs[0])
    given = [walk.read(value) for value in node.inputs if value is not None]
    if node.op_type in _REGRIDDED:
        return any(map(is_out_of_order, given))
    return any(x.is_packed or _lies_otherwise(x, made) for x in given)


def _lies_otherwise(x: Batched, made: FlatSamples) -> bool:
    return x.flat is not None and x.flat.is_plain and not x.flat.grid.equal(made.grid)


def _is_read(value: ir.Value) -> bool:
    """Whether something reads the rows of a value, and not only says which of them are read."""
    if value.is_graph_output():
        return True
    readers = [node for node, _ in value.uses()]
    return any(
        node.op_type not in _COMPOSED | FREE
        or (node.op_type in FREE and any(map(_is_read, node.outputs)))
        for node in readers
    )


def is_out_of_order(x: Batched) -> bool:
    """Whether samples of several shapes lie in memory in another order than that of their axes."""
    flat = x.flat
    return flat is not None and not flat.has_one_shape and flat.order != tuple(sorted(flat.order))


def rows_by_number(walk: BatchInterpreter, node: ir.Node, value: ir.Value) -> Batched | None:
    """Return the samples whose rows are read by number; None where it is number by number.

    Args:
        walk: What became of the nodes of a body.
        node: One that reads by number.
        value: The flat value that it reads.
    """
    made, given = walk.read(node.outputs[0]), walk.read(value)
    assert given.flat is not None
    return None if made.own_flat.grid.rank < given.flat.grid.rank else made


INDEX = 40
"""Bytes of the places that one row is read from, and of one sum of them."""


@dataclasses.dataclass(frozen=True)
class FormWork:
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
class Rate:
    """Nanoseconds and bytes of a kind of node, flat, and nanoseconds of it in a Loop."""

    time: Callable[[FormWork], float]
    bytes: Callable[[FormWork], float]
    alone: Callable[[FormWork], float]


_MOVED = Rate(
    lambda w: 14.0 * w.pixels,
    lambda w: float(INDEX * w.pixels + w.item * w.made),
    lambda w: 0.6 * w.made,
)
BY_NUMBER = Rate(
    lambda w: 110.0 * w.pixels,
    lambda w: float(62 * w.pixels + w.item * w.made),
    lambda w: 0.0,
)
_NEAREST = Rate(lambda w: 10.0 * w.pixels, lambda w: 17.0 * w.pixels, lambda w: 2.7 * w.made)
_LINEAR = Rate(lambda w: 50.0 * w.made, lambda w: 42.0 * w.made, lambda w: 12.0 * w.made)
_ANTIALIASED = Rate(
    lambda w: 5.0 * w.taps * math.sqrt(w.read * w.made),
    lambda w: 9.0 * w.taps * math.sqrt(w.read * w.made) + w.item * w.read,
    lambda w: 5.0 * w.read,
)
_SORTED = Rate(lambda w: 130.0 * w.read, lambda w: 60.0 * w.read, lambda w: 60.0 * w.read)
_SORTED_ALONE = Rate(lambda w: 18.0 * w.read, lambda w: 14.0 * w.made, lambda w: 18.0 * w.read)
_REDUCED = Rate(lambda w: 15.0 * w.read, lambda w: 40.0 * w.read, lambda w: 2.0 * w.read)
_WINDOWED = Rate(lambda w: 40.0 * w.read, lambda w: 90.0 * w.read, lambda w: 1.5 * w.read)
_SCATTERED = Rate(lambda w: 25.0 * w.read, lambda w: 80.0 * w.read, lambda w: 3.0 * w.read)
PLAIN = Rate(lambda w: 0.5 * w.made, lambda w: float(w.item * w.made), lambda w: 0.5 * w.made)
AS_THEY_LIE = (_MOVED, _NEAREST, PLAIN, _SORTED_ALONE)
"""What may be read row by row before; all others say it themselves."""
_BY_SUMS = frozenset({"LogSoftmax", "Softmax"})
_SCATTERS = frozenset({"ScatterElements", "ScatterND"})
_WINDOWS = frozenset({"AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"})


def rate_of(node: ir.Node, *, crosses: bool) -> Rate:
    """Return what a node takes.

    Args:
        node: A node that reads flat samples.
        crosses: Whether they differ along the axis that it sorts or sums.
    """
    if node.op_type in MOVES:
        return _MOVED
    if node.op_type in _WINDOWS:
        return _WINDOWED
    if node.op_type.startswith(("Reduce", "Global")):
        return _REDUCED
    if node.op_type in _SCATTERS:
        return _SCATTERED
    if node.op_type in _BY_SUMS and crosses:
        return _REDUCED
    if node.op_type == "TopK":
        return _SORTED if crosses else _SORTED_ALONE
    if node.op_type != "Resize":
        return PLAIN
    if node.attributes.get_int("antialias", 0):
        return _ANTIALIASED
    return _NEAREST if node.attributes.get_string("mode", "nearest") == "nearest" else _LINEAR
