"""What fusing a map costs and saves: a few measured numbers, used by the strategy ``auto``.

The numbers are microseconds on one core under onnxruntime 1.31. They need not be exact: a
decision hangs on their proportions, and what is proven to have one shape is fused anyhow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import onnx_ir as ir

from passes.typing import Typing

__all__ = ["Estimate", "estimate_guard", "spares"]

KERNEL = 0.6
"""One node run once: what batching saves for each node and sample."""

INSERTION = 2.5
"""Collecting what one sample yields in a sequence or in blocks, beyond what a stack costs."""

GUARD = 2.8
"""Asking one small element for its shape."""

BYTES_READ = 25_000.0
"""Bytes of an element that are copied when it is read from a sequence."""

UNKNOWN_DIM = 256
"""What a dimension that is not known counts as: a side of an image, the rows of a long text."""

FLOPS = 10_000.0
"""Multiplications and additions of a heavy operator."""

HEAVY_SHARE = 50.0
"""A body is dominated by heavy operators that take so many times what batching saves."""

_HEAVY = frozenset({"Attention", "Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul", "RNN"})


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a guard costs and what the fused branch behind it saves, for one sample.

    Attributes:
        saved: Microseconds saved when the samples turn out to have one shape.
        guard: Microseconds for reading the shapes, whatever comes of it.
        work: Microseconds that the heavy operators of the body take either way.
        element_bytes: Bytes read by the guard; unknown dimensions are guessed.
        nodes: How many nodes are batched.
    """

    saved: float
    guard: float
    work: float
    element_bytes: int
    nodes: int

    @property
    def pays(self) -> bool:
        """Whether the guard is worth its cost."""
        return self.saved > self.guard and self.work < HEAVY_SHARE * self.saved

    def explain(self) -> str:
        """Say in one clause what was weighed."""
        if self.saved <= self.guard:
            megabytes = self.element_bytes / 1e6
            return f"a guard would read {megabytes:.1f} MB a sample to save {self.nodes} kernels"
        return (
            f"heavy operators take about {self.work:.0f} us a sample, and batching would save "
            f"{self.saved:.0f} us of overhead"
        )


def estimate_guard(
    nodes: int, body: Iterable[ir.Node], elements: Iterable[ir.Value], typing: Typing
) -> Estimate:
    """Estimate a guarded fusion.

    Args:
        nodes: How many nodes of the body are batched behind the guard and not without it.
        body: The nodes of the body.
        elements: The inputs of the body whose sequences the guard reads.
        typing: The declared typing; sizes are taken from it.
    """
    sizes = [_bytes(value, typing) for value in elements]
    guard = sum(GUARD + size / BYTES_READ for size in sizes)
    work = sum(_flops(node, typing) for node in body) / FLOPS
    return Estimate(nodes * KERNEL + INSERTION, guard, work, sum(sizes), nodes)


def spares(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether loops that run fewer nodes pay for what they collect beyond that.

    Args:
        before: How many nodes run for each sample, and how many values loops collect in sequences
            or blocks.
        after: The same for the other form of a body.
    """
    (nodes, values), (fewer, more) = before, after
    return (nodes - fewer) * KERNEL > (more - values) * INSERTION


def _bytes(value: ir.Value, typing: Typing) -> int:
    dims, dtype = typing.dims(value), typing.dtype(value)
    if dims is None or dtype is None or dtype == ir.DataType.STRING:
        return 0
    numbers = (d if isinstance(d, int) else UNKNOWN_DIM for d in dims)
    return math.ceil(math.prod(numbers) * dtype.itemsize)


def _flops(node: ir.Node, typing: Typing) -> float:
    """Return the multiplications of a heavy node: its result times what each number sums over."""
    if node.op_type not in _HEAVY or node.inputs[0] is None:
        return 0.0
    result = typing.static_dims(node.outputs[0])
    weights = node.inputs[1] if len(node.inputs) > 1 else None
    size = None if weights is None else typing.static_dims(weights)
    if result is None or not size:
        return 0.0
    summed = math.prod(size[1:]) if node.op_type.startswith("Conv") else size[0]
    return 2.0 * math.prod(result) * summed
