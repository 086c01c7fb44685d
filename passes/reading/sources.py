"""Reads by the iteration number: the element sources of a Loop."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from passes.decisions import Code
from passes.graph.builder import Builder
from passes.graph.graphs import is_default_domain, is_operator
from passes.maps.element_source import ElementSource
from passes.maps.sequence_source import DISPUTED, is_disputed, sequence_source
from passes.maps.tensor_source import TensorSource
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import FAR, size_along
from passes.numbers.integers import ITERATION, Linear
from passes.numbers.number_order import is_nonnegative, not_more
from passes.numbers.slice_bounds import AxisCut, Bounds, axes_cut, cut_of, cuts_of
from passes.reading.not_a_map import NotAMapError
from passes.typing.value_types import Typing

__all__ = ["Element", "Reads", "Window", "find_read", "positions"]


@dataclasses.dataclass(frozen=True)
class Element:
    """A node that reads the element of its iteration.

    Attributes:
        source: Where it comes from. A constant ``split`` of it may stand in no graph.
        is_whole: Whether the source has as many elements as there are iterations, by proof.
        is_far: Whether no dimension may be larger than 10^9 for that, as TensorFlow writes Slices.
        rest: Of a Slice of several axes: what is cut of the others behind that.
    """

    source: ElementSource
    is_whole: bool
    is_far: bool = False
    rest: tuple[AxisCut, ...] = ()


@dataclasses.dataclass(frozen=True)
class Window:
    """A Slice that reads ``size`` rows from ``start + step * k`` on.

    Attributes:
        tensor: What it reads.
        axis: Along which axis.
        start: The first row of iteration 0.
        step: How far the next iteration's first row is.
        size: How many rows.
        is_far: Whether no dimension may be larger than 10^9 for that, as TensorFlow writes Slices.
        is_there: Whether none of them is missing, by proof; else the model fails where one is.
    """

    tensor: ir.Value
    axis: int
    start: int
    step: int
    size: int
    is_far: bool = False
    is_there: bool = True


@dataclasses.dataclass(frozen=True)
class Reads:
    """The facts that decide how a value is read by the iteration number.

    Attributes:
        evaluator: Knows the iteration number and the counters.
        inside: The values of the body.
        outer: For an invariant carried value: the value outside that it is.
        trips: The number of iterations.
        bound: The same wherever there is an iteration at all.
        is_exact: Whether it is the number, and not only never exceeded.
        declared: Declared typing.
        proven: Proven typing.
    """

    evaluator: Evaluator
    inside: frozenset[ir.Value]
    outer: dict[ir.Value, ir.Value]
    trips: Linear
    bound: Linear
    is_exact: bool
    declared: Typing
    proven: Typing

    def outside(self, value: ir.Value | None) -> ir.Value | None:
        """Return the value of an enclosing graph that a value is, if it is one."""
        while value is not None and value in self.inside:
            node = value.producer()
            if value in self.outer:
                return self.outer[value]
            if not is_operator(node, "Identity"):
                return None
            value = node.inputs[0]
        return value

    def covers(self, size: Linear | None) -> bool:
        """Whether there are exactly ``size`` iterations, by proof."""
        return self.is_exact and size is not None and (self.trips - size).number == 0


def find_read(node: ir.Node, reads: Reads) -> Element | Window | None:
    """Return what a node reads by the iteration number, None if it is no such node."""
    if not is_default_domain(node):
        return None
    match node.op_type:
        case "SequenceAt":
            return _sequence_at(node, reads)
        case "Gather":
            return _gather(node, reads)
        case "Slice" if len(node.inputs) > 2:
            return _slice(node, reads)
    return None


def _sequence_at(node: ir.Node, reads: Reads) -> Element | None:
    sequence = reads.outside(node.inputs[0])
    if sequence is None or reads.evaluator.number(node.inputs[1]) != Linear.of(ITERATION):
        return None
    if is_disputed(sequence, reads.declared):
        raise NotAMapError(Code.UNKNOWN_RANK, DISPUTED, node)
    source = sequence_source(sequence, reads.declared)
    return Element(source, reads.covers(reads.evaluator.length(sequence)))


def _gather(node: ir.Node, reads: Reads) -> Element | None:
    """Read ``x[k]`` along any axis; a tensor with surplus slices is read by its positions."""
    tensor = reads.outside(node.inputs[0])
    if tensor is None or reads.evaluator.number(node.inputs[1]) != Linear.of(ITERATION):
        return None
    axis = node.attributes.get_int("axis", 0)
    rank = reads.proven.rank(node.inputs[1]) if node.inputs[1] is not None else None
    if rank not in (0, 1) or not reads.covers(reads.evaluator.dimension(tensor, axis)):
        return None
    return Element(TensorSource(tensor, axis, keepdims=rank == 1), True)


def _slice(node: ir.Node, reads: Reads) -> Element | Window | None:
    """Read ``x[a + s * k : a + s * k + n]`` along one axis."""
    tensor = reads.outside(node.inputs[0])
    if tensor is None:
        return None
    cut = cut_of(node, reads.evaluator)
    if cut is not None:
        return _cut(tensor, cut, reads) or _needed(node, tensor, cut, reads)
    cut = cut_of(node, reads.evaluator, farthest=FAR)
    if cut is not None:
        return _cut(tensor, cut, reads, is_far=True)
    return _first_cut(node, tensor, reads)


def _first_cut(node: ir.Node, tensor: ir.Value, reads: Reads) -> Element | None:
    """Read the element along one of several axes; what is cut of the others is cut behind that."""
    axes = axes_cut(node, reads.evaluator)
    for place, cut in enumerate(cuts_of(node, reads.evaluator)):
        read = None if cut is None else _cut(tensor, cut, reads)
        if isinstance(read, Element):
            rest = tuple(axes[:place] + axes[place + 1 :])
            return dataclasses.replace(read, rest=rest)
    return None


def _cut(
    tensor: ir.Value, cut: Bounds, reads: Reads, *, is_far: bool = False
) -> Element | Window | None:
    jump = cut.step.number
    if not jump or jump < 1:
        return None
    start, end, axis = cut.start, cut.end, cut.axis
    dim = size_along(reads.evaluator, tensor, axis)
    first, step = start.without(ITERATION).number, start.coefficient(ITERATION)
    size = _size(start, end, jump)
    if dim is None or first is None or size is None or first < 0 or step <= 0:
        return None
    last = (reads.bound - 1) * step + first + size
    if not is_nonnegative(not_more(dim - last)):
        return None
    window = Window(tensor, axis, first, step, size, is_far or jump > 1)
    return _even(window, dim, reads) or window


def _needed(node: ir.Node, tensor: ir.Value, cut: Bounds, reads: Reads) -> Window | None:
    """Read one number of a vector that is followed, without which the model would fail."""
    numbers, jump = reads.evaluator.of(node.outputs[0]), cut.step.number
    first, step = cut.start.without(ITERATION).number, cut.start.coefficient(ITERATION)
    if numbers is None or len(numbers) != 1 or reads.proven.rank(tensor) != 1 or not jump:
        return None
    if first is None or first < 0 or step <= 0:
        return None
    return Window(tensor, cut.axis, first, step, 1, jump > 1, is_there=False)


def _size(start: Linear, end: Linear, jump: int) -> int | None:
    """Return how many rows there are between two bounds, if it is one number."""
    if jump == 1:
        size = (end - start).number
        return size if size is not None and size > 0 else None
    # TensorFlow's exporter reads one row as the first of many, far from each other.
    goes_on = (end.number or 0) >= FAR or is_nonnegative(end - start - 1)
    return 1 if jump >= FAR and goes_on else None


def _even(window: Window, dim: Linear, reads: Reads) -> Element | None:
    """Return the slices that lie side by side and leave nothing of the tensor out."""
    if window.start or window.step != window.size:
        return None
    if not reads.is_exact or (reads.trips * window.size - dim).number != 0:
        return None
    if window.size == 1:
        source = TensorSource(window.tensor, window.axis)
        return Element(source, True, window.is_far)
    if dim.number is None:
        return None
    size = Builder("").constant(np.array(window.size, np.int64))
    source = TensorSource(window.tensor, window.axis, split=size, split_is_scalar=True)
    return Element(source, True, window.is_far)


def positions(window: Window) -> np.ndarray:
    """Return the rows of iteration 0."""
    return np.arange(window.start, window.start + window.size, dtype=np.int64)
