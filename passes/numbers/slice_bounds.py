"""The begin and the end of a Slice along one axis."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.made import made_by, operand
from passes.graph.scopes import Scope
from passes.graph.whole_slices import END
from passes.numbers.entry_reads import number_at
from passes.numbers.evaluate import Evaluator
from passes.numbers.integer_reads import size_along
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = [
    "AxisCut",
    "Bounds",
    "axes_cut",
    "axis_cut_in_steps_of_1",
    "bounds_of",
    "cut_of",
    "cuts_of",
    "slice_of",
]


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
        return self._reaches(END)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut away."""
        return self.takes_all(END)

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


def cut_of(node: ir.Node, evaluator: Evaluator, *, farthest: int = END) -> Bounds | None:
    """Return what a Slice cuts along one axis, in any steps; None for one of several axes.

    Axes that it takes all of do not count: JAX's exporter names every axis in each Slice.

    Args:
        node: A Slice; before opset 10 its bounds are attributes, which are not read.
        evaluator: Knows numbers.
        farthest: A number that no dimension exceeds.
    """
    named = cuts_of(node, evaluator)
    known = [cut for cut in named if cut is not None]
    cutting = [cut for cut in known if not cut.takes_all(farthest)]
    if not named or len(known) < len(named) or len(cutting) > 1:
        return None
    return (cutting or known)[0]


def cuts_of(node: ir.Node, evaluator: Evaluator) -> list[Bounds | None]:
    """Return what a Slice takes along each axis that it names, None where that is not known.

    The arguments are those of `cut_of`; nothing comes back where the axes are not known.
    """
    tensor, starts, ends = [*node.inputs, None, None][:3]
    if tensor is None or starts is None or ends is None:
        return []
    found: list[Bounds | None] = []
    for cut in axes_cut(node, evaluator):
        start, end = (number_at(evaluator, bounds, cut.place) for bounds in (starts, ends))
        if start is None or end is None:
            found.append(None)
        else:
            size = size_along(evaluator, tensor, cut.axis)
            found.append(Bounds(start, end, cut.axis, Linear(cut.step), size))
    return found


@dataclasses.dataclass(frozen=True)
class AxisCut:
    """What a Slice names of one axis.

    Attributes:
        place: At which place of its bounds those of the axis stand.
        axis: The axis, as it is named.
        step: From one position to the next.
    """

    place: int
    axis: int
    step: int


def axes_cut(node: ir.Node, evaluator: Evaluator) -> list[AxisCut]:
    """Return what a Slice names of each axis; nothing where axes or steps are not known."""
    starts, _, axes, steps = [*node.inputs[1:], None, None, None, None][:4]
    if starts is None:
        return []
    count = _entries(starts, evaluator)
    named = tuple(map(Linear, range(count))) if axes is None else evaluator.of(axes) or ()
    by = (Linear(1),) * len(named) if steps is None else evaluator.of(steps) or ()
    known = [
        AxisCut(place, axis.number, step.number)
        for place, (axis, step) in enumerate(zip(named, by, strict=False))
        if axis.number is not None and step.number is not None
    ]
    return known if len(known) == len(named) == len(by) else []


def _entries(bounds: ir.Value, evaluator: Evaluator) -> int:
    """Return how many bounds there are; 0 where that is not known."""
    numbers, dims = evaluator.of(bounds), evaluator.dims(bounds)
    if numbers is not None:
        return len(numbers)
    return dims[0] if dims is not None and len(dims) == 1 and isinstance(dims[0], int) else 0


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
