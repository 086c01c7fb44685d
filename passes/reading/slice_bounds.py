"""The begin and the end of a Slice along one axis."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.graph.made import made_by, operand
from passes.graph.scopes import Scope
from passes.reading.evaluate import Evaluator
from passes.reading.integers import Linear

__all__ = ["Bounds", "axis_cut_in_steps_of_1", "bounds_of", "slice_of"]

_END = 2**31 - 1
"""Exporters end a Slice that goes to the end here, or farther."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The positions that a Slice takes, all of them in order.

    Attributes:
        start: The first of them.
        end: The first behind them.
        axis: Along which axis, as the node names it.
    """

    start: Linear
    end: Linear
    axis: int

    @property
    def reaches_end(self) -> bool:
        """Whether the end is behind that of any tensor."""
        return self.end.number is not None and self.end.number >= _END

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut away."""
        return self.start == Linear(0) and self.reaches_end


def bounds_of(node: ir.Node, evaluator: Evaluator) -> Bounds | None:
    """Return the bounds of a Slice of one axis in steps of 1; None for another.

    Args:
        node: A Slice; before opset 10 its bounds are attributes, which are not read.
        evaluator: Knows numbers.
    """
    starts, ends = [*node.inputs[1:], None, None][:2]
    start, end = evaluator.number(starts), evaluator.number(ends)
    axis = axis_cut_in_steps_of_1(node, evaluator)
    if start is None or end is None or axis is None:
        return None
    return Bounds(start, end, axis)


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

    The arguments are those of `bounds_of`.
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
