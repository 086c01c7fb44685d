"""The begin and the end of a Slice along one axis."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.made import made_by, operand
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.integer_reads import size_along
from passes.reading.integers import Linear, is_nonnegative

__all__ = ["Bounds", "axis_cut_in_steps_of_1", "bounds_of", "cut_of", "slice_of"]

_END = 2**31 - 1
"""Exporters end a Slice that goes to the end here, or farther."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The positions that a Slice takes, all of them in order.

    Attributes:
        start: The first of them.
        end: The first behind them.
        axis: Along which axis, as the node names it.
        step: From one position to the next.
        size: How long the axis is; None where that is not known.
    """

    start: Linear
    end: Linear
    axis: int
    step: Linear = dataclasses.field(default_factory=lambda: Linear(1))
    size: Linear | None = dataclasses.field(default=None, compare=False)

    @property
    def reaches_end(self) -> bool:
        """Whether the end is that of the tensor, or behind it."""
        return self._reaches(_END)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut away."""
        return self.takes_all(_END)

    def takes_all(self, farthest: int) -> bool:
        """Whether nothing is cut away of an axis that is no longer than a number."""
        return self.start == Linear(0) and self.step == Linear(1) and self._reaches(farthest)

    def _reaches(self, farthest: int) -> bool:
        if self.size is not None and is_nonnegative(self.end - self.size):
            return True
        return self.end.number is not None and self.end.number >= farthest


def bounds_of(node: ir.Node, evaluator: Evaluator) -> Bounds | None:
    """Return the bounds of a Slice of one axis in steps of 1; None for another.

    The arguments are those of `cut_of`.
    """
    cut = cut_of(node, evaluator)
    return None if cut is None or cut.step != Linear(1) else cut


def cut_of(node: ir.Node, evaluator: Evaluator, *, farthest: int = _END) -> Bounds | None:
    """Return what a Slice cuts along one axis, in any steps; None for one of several axes.

    Axes that it takes all of do not count: JAX's exporter names every axis in each Slice.

    Args:
        node: A Slice; before opset 10 its bounds are attributes, which are not read.
        evaluator: Knows numbers.
        farthest: A number that no dimension exceeds.
    """
    named = _named_cuts(node, evaluator)
    cutting = [cut for cut in named if not cut.takes_all(farthest)]
    return (cutting or named)[0] if named and len(cutting) < 2 else None


def _named_cuts(node: ir.Node, evaluator: Evaluator) -> list[Bounds]:
    """Return what a Slice takes along each axis that it names; nothing if some is not known."""
    tensor, *given = [*node.inputs, None, None, None, None][:5]
    starts, ends, axes, steps = (evaluator.of(value) for value in given)
    if tensor is None or starts is None or ends is None:
        return []
    axes = tuple(map(Linear, range(len(starts)))) if given[2] is None else axes
    steps = (Linear(1),) * len(starts) if given[3] is None else steps
    if axes is None or steps is None or {len(ends), len(axes), len(steps)} != {len(starts)}:
        return []
    places = [axis.number for axis in axes if axis.number is not None]
    if len(places) < len(axes):
        return []
    sizes = [size_along(evaluator, tensor, axis) for axis in places]
    rows = zip(starts, ends, places, steps, sizes, strict=True)
    return [Bounds(*row) for row in rows]


def slice_of(
    value: ir.Value | None, evaluator: Evaluator, body: ir.Graph | Scope
) -> tuple[ir.Value, Bounds] | None:
    """Return what a value is cut from by a Slice of `bounds_of`, and where; None for another.

    Args:
        value: The value.
        evaluator: Knows numbers.
        body: The graph that the Slice stands in.
    """
    node = made_by(value, "Slice", body=body)
    if node is None:
        return None
    bounds = bounds_of(node, evaluator)
    return None if bounds is None else (operand(node, 0), bounds)


def axis_cut_in_steps_of_1(node: ir.Node, evaluator: Evaluator) -> int | None:
    """Return the one axis that a Slice cuts, as the node names it; None for another Slice.

    The arguments are those of `cut_of`.
    """
    if len(node.inputs) < 3:
        return None
    _, starts, _, axes, steps = [*node.inputs, None, None][:5]
    step = 1 if steps is None else evaluator.integer(steps)
    if starts is None or step != 1:
        return None
    if axes is not None:
        return evaluator.integer(axes)
    is_one = evaluator.number(starts) is not None or evaluator.dims(starts) == (1,)
    return 0 if is_one else None
