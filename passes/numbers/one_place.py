"""Slices of one place: what they take, and what fails where there is no such place."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import axes_of, made_by, operand, optional_operand
from passes.numbers.integer_reads import FAR, NumberReader, size_along
from passes.numbers.integers import Linear
from passes.numbers.number_order import is_nonnegative

__all__ = ["needs_one_number", "row_taken", "takes_one"]


def takes_one(start: Linear, end: Linear, step: Linear) -> bool:
    """Whether a Slice takes one entry, or the first of many that lie far from each other.

    What ends farther than any dimension reaches ends behind whatever place is within the vector.

    Args:
        start: The first place.
        end: The first place behind the last one.
        step: From one place to the next.
    """
    if step.number == 1:
        return (end - start).number == 1
    # TensorFlow's exporter writes x[i] so.
    ends_behind = is_nonnegative(end - FAR) or is_nonnegative(end - start - 1)
    return (step.number or 0) >= FAR and ends_behind


def needs_one_number(evaluator: NumberReader, vector: ir.Value) -> bool:
    """Whether all readers of a vector fail where it is empty, and there are some.

    One in a branch fails only where the branch is taken.

    Args:
        evaluator: Knows numbers and dimensions.
        vector: The vector.
    """
    readers = [use.node for use in vector.uses()]
    if not readers or vector.is_graph_output():
        return False
    maker = vector.producer()
    beside = all(maker is not None and node.graph is maker.graph for node in readers)
    return beside and all(_fails_on_nothing(evaluator, node, vector) for node in readers)


def _fails_on_nothing(evaluator: NumberReader, node: ir.Node, vector: ir.Value) -> bool:
    """Whether a node fails where a vector is empty: it squeezes it, or scatters one row by it."""
    if is_operator(node, "Squeeze"):
        return axes_of(node) is not None
    if is_operator(node, ("Cast", "Unsqueeze")) and node.inputs[0] is vector:
        return needs_one_number(evaluator, node.outputs[0])
    if not is_operator(node, "ScatterND") or node.inputs[1] is not vector:
        return False
    dims, made = evaluator.dims(node.inputs[2]), made_by(node.inputs[2], "Unsqueeze")
    is_grown = made is not None and axes_of(made) == [0]
    is_one = is_grown or (dims or ())[:1] == (1,)
    return is_one or _takes_one_row(evaluator, node.inputs[2])


def _takes_one_row(evaluator: NumberReader, value: ir.Value | None) -> bool:
    """Whether a Slice along the first axis takes one row, and there is such a row."""
    taken = row_taken(evaluator, value)
    return taken is not None and evaluator.is_within(*taken)


def row_taken(evaluator: NumberReader, value: ir.Value | None) -> tuple[Linear, Linear] | None:
    """Return which row a Slice along the first axis takes, and of how many; None for another.

    There is no such row where its number is not less than theirs. A Slice of one row from 0 on
    takes it, too: TensorFlow's exporter writes ``x[i][None]`` so.
    """
    node = made_by(value, "Slice")
    if node is None or evaluator.number(optional_operand(node, 3)) != Linear(0):
        return None
    start, end = (evaluator.number(v) for v in node.inputs[1:3])
    step = Linear(1) if optional_operand(node, 4) is None else evaluator.number(node.inputs[4])
    if start is None or end is None or step is None:
        return None
    takes_first = start == Linear(0) and step == Linear(1) and is_nonnegative(end - 1)
    inner = row_taken(evaluator, operand(node, 0)) if takes_first else None
    if inner is not None:
        return inner
    size = size_along(evaluator, operand(node, 0), 0)
    is_one = is_nonnegative(start) and takes_one(start, end, step)
    return (start, size) if is_one and size is not None else None
